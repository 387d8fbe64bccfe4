"""Does anything beat the default threshold: data, candidates, fits, statistics, the result."""
