"""What the papers compare with."""
