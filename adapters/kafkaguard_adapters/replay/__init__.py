"""Dead letters go back to the topics that they came from, each once."""
