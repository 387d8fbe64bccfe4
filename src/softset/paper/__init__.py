"""The papers' experiments as data: every table a specification, one runner, one summary."""
