"""Speed only. ``compose`` of each kernel is the truth; one that disagrees with it is wrong."""
