"""What holds of the papers: claims, one rule, and the verdicts that follow from the results."""
