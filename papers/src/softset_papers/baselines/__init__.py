"""What the papers compare with: adversarial F1, SVM-perf, convex calibrated surrogates."""
