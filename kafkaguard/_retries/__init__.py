"""How to try again: the retry machine, backoff, breaker, budget and events."""
