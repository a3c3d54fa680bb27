"""Classification: signals, rules, verdicts, topic facts, API names."""
