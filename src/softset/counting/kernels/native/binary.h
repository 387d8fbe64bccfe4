/* One class, or labels of which each is a problem of its own: tp = sum w y H, fn = sum w y (1 - H), and
   fp and tn the same of the negatives. */

typedef struct {
    REAL a, m1, m2, m3, beyond, tau, b;
} NAME(level);

static NAME(level) NAME(level_of)(const double *v) {
    return (NAME(level)){(REAL)v[0], (REAL)v[1], (REAL)v[2], (REAL)v[3], (REAL)v[4], (REAL)v[5], (REAL)v[6]};
}

/* What is known of a block of scores of one label, a lane for each. */
typedef struct {
    REAL y[LANES], p[LANES], q[LANES], pull[LANES];
    double weight[LANES];
    INT ignored[LANES];
} NAME(column);

/* Labels and weights of label `c` in a block. Those left out weigh nothing. */
static int NAME(read_column)(const task *t, int64_t c, const positions *p, NAME(column) * k,
                             int *some_ignored, double *heaviest) {
    REAL *y = k->y, ignored = (REAL)t->ignored;
    const strides *s = &t->of_target;
    for (int i = 0; i < LANES; i++) y[i] = 0;
    switch (t->target_kind) {
    case INT64: READ(y, int64_t, t->target, TARGET, s, c) break;
    case INT32: READ(y, int32_t, t->target, TARGET, s, c) break;
    case UINT8: READ(y, uint8_t, t->target, TARGET, s, c) break;
    case FLOAT32: READ(y, float, t->target, TARGET, s, c) break;
    default: READ(y, double, t->target, TARGET, s, c)
    }
    if (NAME(read_weights)(t, p, c, k->weight, heaviest)) return BAD_WEIGHT;
    INT some = 0, stray = 0;
    if (t->ignores) {
#pragma omp simd reduction(| : some)
        for (int i = 0; i < LANES; i++) {
            INT out = -(INT)((y[i] == ignored) & (i < p->used));
            some |= out;
            k->ignored[i] = out;
            y[i] = NAME(where)(!out, y[i]);
        }
        for (int i = 0; some && i < LANES; i++) k->weight[i] = k->ignored[i] ? 0 : k->weight[i];
    }
    *some_ignored = some != 0;
    if (t->soft)
#pragma omp simd reduction(| : stray)
        for (int i = 0; i < LANES; i++) stray |= (y[i] < 0) | (y[i] > 1) | NAME(is_nan)(y[i]);
    else
#pragma omp simd reduction(| : stray)
        for (int i = 0; i < LANES; i++) stray |= ((y[i] != 0) & (y[i] != 1)) | NAME(is_nan)(y[i]);
    if (stray) return BAD_TARGET;
    if (t->class_weight) {
        int both = t->classes == 1; /* one for each of two classes; else one for each label */
        double v0 = t->class_weight[both ? 0 : c], v1 = t->class_weight[both ? 1 : c];
        for (int i = 0; i < LANES; i++) k->weight[i] *= y[i] > 0 ? v1 : v0;
    }
    drop_nothing(t, k->weight);
    return DONE;
}

/* p and q = 1 - p of a column; both have all their digits. */
static void NAME(probabilities)(const task *t, const REAL *restrict z, NAME(column) * k) {
    if (t->from_logits)
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL e = NAME(exp_of)(NAME(min_of)(z[i], -z[i])), d = 1 / (1 + e), e_d = e * d;
            k->p[i] = z[i] < 0 ? e_d : d;
            k->q[i] = z[i] < 0 ? d : e_d;
        }
    else
        for (int i = 0; i < LANES; i++) k->p[i] = z[i], k->q[i] = 1 - z[i];
}

/* p - tau, of the two that are smaller. */
static inline REAL NAME(above)(NAME(level) v, REAL p, REAL q) {
    return v.tau <= (REAL)0.5 ? p - v.tau : (1 - v.tau) - q;
}

/* Whether p is above the upper corner, by the one of p and q that has the digits. */
static inline int NAME(past)(NAME(level) v, REAL p, REAL q) {
    return v.tau <= (REAL)0.5 ? p > v.b : q < v.beyond;
}

/* The four cells of a column at one threshold grow, `apart` from one another. `small` is the smaller of
   H and 1 - H, which has all its digits; the other is 1 minus it, in double, so that they add up. */
#define ADD_CELLS(small, upper)                                                                    \
    double s_ = (small), h_ = (upper) ? 1 - s_ : s_, r_ = (upper) ? s_ : 1 - s_;                    \
    double w_ = k->weight[i], wy_ = w_ * k->y[i], wn_ = w_ - wy_;                                  \
    tp += wy_ * h_, fp += wn_ * h_, fn += wy_ * r_, tn += wn_ * r_;

static void NAME(add_column)(const task *t, NAME(level) v, const NAME(column) * k, double *sums,
                             int64_t apart) {
    double tp = 0, fp = 0, fn = 0, tn = 0;
    if (t->step == LINEAR) {
#pragma omp simd reduction(+ : tp, fp, fn, tn)
        for (int i = 0; i < LANES; i++) {
            REAL p = k->p[i], q = k->q[i], above = NAME(above)(v, p, q), over = v.m2 * above;
            REAL low = v.m1 * p, high = v.m3 * q, least = (REAL)0.5 - NAME(max_of)(over, -over);
            least = NAME(past)(v, p, q) ? high : least;
            least = p < v.a ? low : least;
            ADD_CELLS(least, above > 0)
        }
    } else if (t->step == SIGMOID) {
#pragma omp simd reduction(+ : tp, fp, fn, tn)
        for (int i = 0; i < LANES; i++) {
            REAL x = v.a * NAME(above)(v, k->p[i], k->q[i]);
            REAL e = NAME(exp_of)(NAME(min_of)(x, -x)), d = 1 / (1 + e);
            ADD_CELLS(e * d, x > 0)
        }
    } else {
#pragma omp simd reduction(+ : tp, fp, fn, tn)
        for (int i = 0; i < LANES; i++) {
            REAL p = k->p[i], q = k->q[i];
            ADD_CELLS(NAME(min_of)(p, q), p > q)
        }
    }
    sums[0] += tp, sums[apart] += fp, sums[2 * apart] += fn, sums[3 * apart] += tn;
}

/* L' H' of a column, added up over thresholds in `pull`: L' is `positive` for y = 1 and `negative` for
   y = 0. */
static void NAME(pull_column)(const task *t, NAME(level) v, NAME(column) * k, REAL positive,
                              REAL negative) {
    if (t->step == LINEAR) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL y = k->y[i], p = k->p[i], slope = NAME(past)(v, p, k->q[i]) ? v.m3 : v.m2;
            slope = p < v.a ? v.m1 : slope;
            k->pull[i] += slope * (y * positive + (1 - y) * negative);
        }
    } else if (t->step == SIGMOID) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL y = k->y[i], x = v.a * NAME(above)(v, k->p[i], k->q[i]);
            REAL e = NAME(exp_of)(NAME(min_of)(x, -x)), d = 1 / (1 + e);
            k->pull[i] += v.a * e * d * d * (y * positive + (1 - y) * negative);
        }
    } else {
#pragma omp simd
        for (int i = 0; i < LANES; i++)
            k->pull[i] += k->y[i] * positive + (1 - k->y[i]) * negative;
    }
}

/* A block of all labels, in `z`, which the backward pass turns into the gradient. */
static int NAME(binary_block)(const task *t, NAME(column) * k, REAL *z, part *of,
                              const positions *p, int backward) {
    int64_t count = t->level_count, b = of->problem;
    NAME(read_scores)(t, p, z);
    for (int64_t c = 0; c < t->classes; c++) {
        REAL *x = z + c * LANES;
        int some_ignored, outcome = NAME(read_column)(t, c, p, k, &some_ignored, &of->heaviest);
        if (outcome) return outcome;
        if (NAME(clean)(x, some_ignored ? k->ignored : 0, 1)) return BAD_SCORES;
        NAME(probabilities)(t, x, k);
        const double *level = t->levels + LEVEL * (b * t->level_batch + c * t->level_class);
        int64_t which = b * t->classes + c;
        if (!backward) {
            double *sums = of->sums + c * 4 * count;
            for (int64_t l = 0; l < count; l++)
                NAME(add_column)(t, NAME(level_of)(level + LEVEL * l), k, sums + l, count);
            continue;
        }
        for (int i = 0; i < LANES; i++) k->pull[i] = 0;
        for (int64_t l = 0; l < count; l++) {
            int64_t at = which * count + l;
            NAME(pull_column)(t, NAME(level_of)(level + LEVEL * l), k, (REAL)t->positive[at],
                              (REAL)t->negative[at]);
        }
        if (t->from_logits)
            for (int i = 0; i < LANES; i++) x[i] = (REAL)k->weight[i] * k->pull[i] * k->p[i] * k->q[i];
        else
            for (int i = 0; i < LANES; i++) x[i] = (REAL)k->weight[i] * k->pull[i];
    }
    if (backward) NAME(write_gradient)(t, p, z);
    return DONE;
}

static size_t NAME(binary_bytes)(const task *t) {
    return sizeof(NAME(column)) + sizeof(REAL) * (size_t)(t->classes * LANES);
}

static int NAME(binary)(const task *t, int backward, part *of, char *memory) {
    NAME(column) *k = (NAME(column) *)memory;
    REAL *z = (REAL *)(memory + sizeof(NAME(column)));
    int outcome = DONE;
    positions p = begin(t, of);
    while (!outcome && next_block(t, of->problem, &p))
        outcome = NAME(binary_block)(t, k, z, of, &p, backward);
    return outcome;
}
