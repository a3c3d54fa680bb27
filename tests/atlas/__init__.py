"""The atlas: what each client does with each answer of a broker."""
