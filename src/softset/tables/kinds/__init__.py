"""The kinds of columns, one file for each: number, date, category."""
