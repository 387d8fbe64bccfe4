/* A uniform grid of thresholds, in bins of p (docs/kernels.md): forward, mass and moment in each bin
   (of p, in the upper half of the bins of 1 - p), [batch, classes, 2, bins + 1, 2], negatives first; backward, the slope in each bin, given as
   `negative` [batch, classes, 2, bins + 1]. The number of bins is `level_count`. */

static int NAME(bins)(const task *t, int backward) {
    int64_t bins = t->level_count, size = 2 * (bins + 1);
    char *memory = room(sizeof(NAME(column)) + sizeof(REAL) * (size_t)(t->classes * LANES));
    if (!memory) return NO_MEMORY;
    NAME(column) *k = (NAME(column) *)memory;
    REAL *z = (REAL *)(memory + sizeof(NAME(column)));
    double heaviest = 0;
    int outcome = DONE;
    if (!backward)
        for (int64_t i = 0; i < t->batch * t->classes * size * 2; i++) t->sums[i] = 0;
    for (int64_t b = 0; b < t->batch; b++) {
        positions p = {.o = 0};
        while (!outcome && next_block(t, b, &p)) {
            NAME(read_scores)(t, &p, z);
            for (int64_t c = 0; c < t->classes; c++) {
                int some_ignored;
                REAL *x = z + c * LANES;
                outcome = NAME(read_column)(t, c, &p, k, &some_ignored, &heaviest);
                if (outcome) break;
                if (NAME(clean)(x, some_ignored ? k->ignored : 0, 1)) { outcome = BAD_SCORES; break; }
                NAME(probabilities)(t, x, k);
                int64_t first = (b * t->classes + c) * size, bin[LANES];
                for (int j = 0; j < LANES; j++) {
                    bin[j] = (int64_t)(k->p[j] * (REAL)bins) + (bins + 1) * (k->y[j] > 0);
                    bin[j] = bin[j] < 0 ? 0 : bin[j] >= size ? size - 1 : bin[j];
                }
                if (!backward) {
                    double *sums = t->sums + 2 * first;
                    for (int64_t j = 0; j < p.used; j++) {
                        int upper = bin[j] - (bins + 1) * (k->y[j] > 0) >= bins / 2;
                        sums[2 * bin[j]] += k->weight[j];
                        sums[2 * bin[j] + 1] += k->weight[j] * (upper ? k->q[j] : k->p[j]);
                    }
                    continue;
                }
                const double *slope = t->negative + first;
                for (int64_t j = 0; j < p.used; j++)
                    x[j] = (REAL)(slope[bin[j]] * k->weight[j]) *
                           (t->from_logits ? k->p[j] * k->q[j] : 1);
            }
            if (backward && !outcome) NAME(write_gradient)(t, &p, z);
        }
    }
    if (!outcome && t->weight && !usual(heaviest)) outcome = BAD_WEIGHT;
    free(memory);
    return outcome;
}
