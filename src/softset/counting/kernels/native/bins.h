/* A uniform grid of thresholds, in bins of p (docs/kernels.md): forward, mass and moment in each bin
   (of p, in the upper half of the bins of 1 - p), [batch, classes, 2, bins + 1, 2], negatives first; backward, the slope in each bin, given as
   `negative` [batch, classes, 2, bins + 1]. The number of bins is `level_count`. */

static int NAME(bins)(const task *t, int backward, part *of, char *memory) {
    int64_t bins = t->level_count, size = 2 * (bins + 1);
    NAME(column) *k = (NAME(column) *)memory;
    REAL *z = (REAL *)(memory + sizeof(NAME(column)));
    positions p = begin(t, of);
    while (next_block(t, of->problem, &p)) {
        NAME(read_scores)(t, &p, z);
        for (int64_t c = 0; c < t->classes; c++) {
            REAL *x = z + c * LANES;
            int some_ignored, outcome = NAME(read_column)(t, c, &p, k, &some_ignored, &of->heaviest);
            if (outcome) return outcome;
            if (NAME(clean)(x, some_ignored ? k->ignored : 0, 1)) return BAD_SCORES;
            NAME(probabilities)(t, x, k);
            int64_t bin[LANES];
            for (int j = 0; j < LANES; j++) {
                bin[j] = (int64_t)(k->p[j] * (REAL)bins) + (bins + 1) * (k->y[j] > 0);
                bin[j] = bin[j] < 0 ? 0 : bin[j] >= size ? size - 1 : bin[j];
            }
            if (!backward) {
                double *sums = of->sums + 2 * c * size;
                for (int64_t j = 0; j < p.used; j++) {
                    int upper = bin[j] - (bins + 1) * (k->y[j] > 0) >= bins / 2;
                    sums[2 * bin[j]] += k->weight[j];
                    sums[2 * bin[j] + 1] += k->weight[j] * (upper ? k->q[j] : k->p[j]);
                }
                continue;
            }
            const double *slope = t->negative + (of->problem * t->classes + c) * size;
            for (int64_t j = 0; j < p.used; j++)
                x[j] = (REAL)(slope[bin[j]] * k->weight[j]) *
                       (t->from_logits ? k->p[j] * k->q[j] : 1);
        }
        if (backward) NAME(write_gradient)(t, &p, z);
    }
    return DONE;
}
