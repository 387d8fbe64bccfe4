"""From scores to decisions, and what they are worth: the only place where a probability becomes a
decision."""
