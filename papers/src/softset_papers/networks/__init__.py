"""The networks of the rows: what they are made of, what they are trained for, and how."""
