"""What an answer means: signals, rules, verdicts, topic facts, API names."""
