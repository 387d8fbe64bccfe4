"""Is it worth it: data, candidates, plan, workers, statistics, the result and its summary."""
