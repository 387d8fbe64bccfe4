/* Several classes. A row belongs to class j to the degree g_j = H_j / sum H. docs/kernels.md derives
   what is computed here; names are the same. */

/* What is known of the rows of a block, a lane for each. */
typedef struct {
    double weight[LANES];
    double others[LANES], whole[LANES]; /* S without the largest, and S: what `add_rows` adds */
    double total[SUMS][LANES]; /* of `sum`, over the runs before */
    union {
        REAL sum[SUMS][LANES]; /* with the names of */
        struct {
            REAL sum_h[LANES], sum_u[LANES]; /* S; the sum of u or of exp, without the largest */
            REAL l_h[LANES], l_s[LANES], sum_s[LANES], p_l_s[LANES], p_s[LANES]; /* sums with L' */
        };
    };
    INT label[LANES], ignored[LANES];
    REAL top[LANES], second[LANES]; /* the two largest scores */
    INT first_place[LANES], second_place[LANES];
    REAL e_second[LANES], per_t[LANES];   /* exp(second - top); 1 / t, or 1 / sum exp */
    REAL h_top[LANES], s_top[LANES];      /* of the largest, for the linear step */
    REAL scale[LANES], mean[LANES], pull[LANES];                         /* of the gradient */
    REAL at_top[LANES], at_second[LANES];
} NAME(rows);

/* Labels and weights of a block; those left out weigh nothing. */
static int NAME(read_rows)(const task *t, const positions *p, NAME(rows) * r, int *some_ignored,
                           double *heaviest) {
    int64_t label[LANES], classes = t->classes;
    for (int i = 0; i < LANES; i++) label[i] = 0;
    if (t->target_kind == INT64) READ(label, int64_t, t->target, TARGET, &t->of_target, 0)
    else if (t->target_kind == INT32) READ(label, int32_t, t->target, TARGET, &t->of_target, 0)
    else READ(label, uint8_t, t->target, TARGET, &t->of_target, 0)
    if (NAME(read_weights)(t, p, 0, r->weight, heaviest)) return BAD_WEIGHT;
    int64_t some = 0, stray = 0;
    if (t->ignores) {
#pragma omp simd reduction(| : some)
        for (int i = 0; i < LANES; i++) {
            int64_t out = -(int64_t)((label[i] == t->ignored) & (i < p->used));
            some |= out;
            label[i] &= ~out;
            r->ignored[i] = (INT)out;
        }
        for (int i = 0; some && i < LANES; i++) r->weight[i] = r->ignored[i] ? 0 : r->weight[i];
    }
#pragma omp simd reduction(| : stray)
    for (int i = 0; i < LANES; i++) {
        stray |= (label[i] < 0) | (label[i] >= classes);
        r->label[i] = (INT)label[i];
    }
    if (stray) return BAD_TARGET;
    if (t->class_weight)
        for (int i = 0; i < LANES; i++) r->weight[i] *= t->class_weight[label[i]];
    drop_nothing(t, r->weight);
    *some_ignored = some != 0;
    return DONE;
}

/* The two largest of each row and their places: the first of equal ones. */
static int NAME(find_two)(const task *t, NAME(rows) * r, const REAL *restrict z) {
    for (int i = 0; i < LANES; i++) {
        REAL a = z[i], b = z[LANES + i];
        r->top[i] = NAME(max_of)(a, b), r->second[i] = NAME(min_of)(a, b);
        r->first_place[i] = b > a, r->second_place[i] = 1 - (b > a);
    }
    for (int64_t c = 2; c < t->classes; c++) {
        const REAL *x = z + c * LANES;
        INT here = (INT)c;
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL a = r->top[i], b = r->second[i], v = x[i];
            r->top[i] = NAME(max_of)(a, v);
            r->second[i] = NAME(max_of)(b, NAME(min_of)(a, v));
            INT first = r->first_place[i], second = v > b ? here : r->second_place[i];
            r->second_place[i] = v > a ? first : second;
            r->first_place[i] = v > a ? here : first;
        }
    }
    int bad = 0;
#pragma omp simd reduction(| : bad)
    for (int i = 0; i < LANES; i++) bad |= NAME(not_finite)(r->top[i]);
    return bad;
}

/* The derivatives by the degree of a class: of a row that is of the class, and of another row. */
typedef struct {
    const REAL *positive, *negative;
} NAME(by);

static inline REAL NAME(by_degree)(NAME(by) l, const NAME(rows) * r, int i, INT class) {
    return r->label[i] == class ? l.positive[class] : l.negative[class];
}

static void NAME(no_sums)(NAME(rows) * r, int count) {
    for (int s = 0; s < count; s++)
        for (int i = 0; i < LANES; i++) r->total[s][i] = r->sum[s][i] = 0;
}

/* Before class `c`: the first `count` sums from here on are of a new run, if one begins. */
static inline void NAME(carry)(NAME(rows) * r, int count, int64_t c) {
    if (c == 0 || c % RUN) return;
    for (int s = 0; s < count; s++)
        for (int i = 0; i < LANES; i++) r->total[s][i] += r->sum[s][i], r->sum[s][i] = 0;
}

/* After the last class: they are of all runs. */
static void NAME(settle)(NAME(rows) * r, int count, int64_t classes) {
    if (classes <= RUN) return;
    for (int s = 0; s < count; s++)
        for (int i = 0; i < LANES; i++) r->sum[s][i] = (REAL)(r->total[s][i] + r->sum[s][i]);
}

/* --- the linear step ----------------------------------------------------------------------------

   With e_j = exp(z_j - max z), t = (1 + e_2) / 2 and u = e / t, all below the upper corner is
   H = alpha min(u, a) + beta max(u - a, 0), and only the largest can be above. */

typedef struct {
    REAL delta, a, reach, alpha, beta;
} NAME(linear);

static NAME(linear) NAME(linear_of)(const double *level) {
    double delta = level[0], width = level[1];
    return (NAME(linear)){(REAL)delta, (REAL)(1 - width / 2), (REAL)(1 + width / 2),
                          (REAL)(delta / (1 - width / 2)), (REAL)((1 - 2 * delta) / width)};
}

static inline REAL NAME(degree)(NAME(linear) k, REAL u) {
    return k.alpha * NAME(min_of)(u, k.a) + k.beta * NAME(max_of)(u - k.a, 0);
}

/* H of all but the largest, which gets 0, in place of z, and their sums. */
static void NAME(linear_degrees)(const task *t, NAME(rows) * r, REAL *restrict z, NAME(linear) k) {
    for (int64_t c = 0; c < t->classes; c++) {
        REAL *x = z + c * LANES;
        INT here = (INT)c;
        NAME(carry)(r, FORWARD_SUMS, c);
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL u = NAME(exp_of)(x[i] - r->top[i]) * r->per_t[i];
            u = NAME(where)(r->first_place[i] != here, u);
            REAL h = NAME(degree)(k, u);
            r->sum_u[i] += u, r->others[i] += h;
            x[i] = h;
        }
    }
    NAME(settle)(r, FORWARD_SUMS, t->classes);
}

/* u of all but the largest, which gets 0, in place of z, and the sums of the backward pass. */
static void NAME(linear_sums)(const task *t, NAME(rows) * r, REAL *restrict z, NAME(linear) k,
                              NAME(by) l) {
    for (int64_t c = 0; c < t->classes; c++) {
        REAL *x = z + c * LANES, yes = l.positive[c], no = l.negative[c];
        INT here = (INT)c;
        NAME(carry)(r, LINEAR_SUMS, c);
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL u = NAME(exp_of)(x[i] - r->top[i]) * r->per_t[i];
            u = NAME(where)(r->first_place[i] != here, u);
            REAL h = NAME(degree)(k, u), s = (u < k.a ? k.alpha : k.beta) * u;
            REAL by = r->label[i] == here ? yes : no;
            r->sum_u[i] += u, r->sum_h[i] += h, r->sum_s[i] += s;
            r->l_h[i] += by * h, r->l_s[i] += by * s;
            x[i] = u;
        }
    }
    NAME(settle)(r, LINEAR_SUMS, t->classes);
}

static void NAME(before_linear)(NAME(rows) * r) {
    NAME(no_sums)(r, LINEAR_SUMS);
    for (int i = 0; i < LANES; i++) {
        r->e_second[i] = NAME(exp_of)(r->second[i] - r->top[i]);
        r->per_t[i] = 2 / (1 + r->e_second[i]);
        r->others[i] = 0;
    }
}

/* What the largest adds. */
static void NAME(after_linear)(NAME(rows) * r, NAME(linear) k) {
    for (int i = 0; i < LANES; i++) {
        REAL per_t = r->per_t[i], mean_t = 1 / per_t, past = 1 - k.reach * mean_t;
        REAL rest = r->sum_u[i] * mean_t;
        REAL beyond = 1 - k.delta * rest / (rest + NAME(max_of)(past, 0) + (REAL)1e-30);
        r->h_top[i] = past > 0 ? beyond : k.delta + k.beta * (per_t - k.a);
        r->s_top[i] = past > 0 ? 0 : k.beta * per_t;
        r->sum_h[i] += r->h_top[i], r->whole[i] = r->others[i] + r->h_top[i];
    }
}

/* The gradient, in place of u. */
static void NAME(linear_gradient)(const task *t, NAME(rows) * r, REAL *restrict x, NAME(linear) k,
                                  NAME(by) l) {
    REAL l_top[LANES];
    for (int i = 0; i < LANES; i++) l_top[i] = NAME(by_degree)(l, r, i, r->first_place[i]);
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        REAL mean_t = 1 / r->per_t[i], past = NAME(max_of)(1 - k.reach * mean_t, 0);
        REAL rest = r->sum_u[i] * mean_t, d = rest + past + (REAL)1e-30;
        REAL per_s = 1 / r->sum_h[i], scale = (REAL)r->weight[i] * per_s;
        REAL mean = (r->l_h[i] + l_top[i] * r->h_top[i]) * per_s;
        REAL drift = (r->l_s[i] + l_top[i] * r->s_top[i] - mean * (r->sum_s[i] + r->s_top[i])) * scale;
        REAL q = (l_top[i] - mean) * scale;
        REAL steep = NAME(where)(past > 0, q * k.delta / (d * d));
        REAL lambda = -(drift * r->per_t[i] + steep * rest * k.reach) / 2;
        r->mean[i] = mean, r->scale[i] = scale, r->pull[i] = steep * past * mean_t;
        r->at_top[i] = q * r->s_top[i] + steep * rest + lambda;
        r->at_second[i] = lambda * r->e_second[i];
    }
    for (int64_t c = 0; c < t->classes; c++, x += LANES) {
        REAL yes = l.positive[c], no = l.negative[c];
        INT here = (INT)c;
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL slope = (x[i] < k.a ? k.alpha : k.beta) * r->scale[i];
            REAL by = r->label[i] == here ? yes : no;
            REAL g = x[i] * ((by - r->mean[i]) * slope - r->pull[i]);
            g += NAME(where)(r->first_place[i] == here, r->at_top[i]);
            x[i] = g + NAME(where)(r->second_place[i] == here, r->at_second[i]);
        }
    }
}

/* --- the other steps: H(p, tau) of probabilities ------------------------------------------------ */

/* exp(z - max z) in place of z. */
static void NAME(exponentials)(const task *t, NAME(rows) * r, REAL *restrict z) {
    NAME(no_sums)(r, SUMS);
    for (int i = 0; i < LANES; i++) r->others[i] = 0;
    for (int64_t c = 0; c < t->classes; c++, z += LANES) {
        INT here = (INT)c;
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL e = NAME(exp_of)(z[i] - r->top[i]);
            r->others[i] += NAME(where)(r->first_place[i] != here, e);
            z[i] = e;
        }
    }
    for (int i = 0; i < LANES; i++) {
        r->whole[i] = r->others[i] + 1;
        r->per_t[i] = 1 / (REAL)r->whole[i];
        r->e_second[i] = NAME(exp_of)(r->second[i] - r->top[i]);
    }
}

/* The identity: p in place of exponentials, and the sums of the backward pass. */
static void NAME(identity_sums)(const task *t, NAME(rows) * r, REAL *restrict x, NAME(by) l) {
    for (int64_t c = 0; c < t->classes; c++, x += LANES) {
        REAL yes = l.positive[c], no = l.negative[c];
        INT here = (INT)c;
        NAME(carry)(r, LINEAR_SUMS, c);
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL p = x[i] * r->per_t[i];
            r->l_h[i] += (r->label[i] == here ? yes : no) * p;
            x[i] = p;
        }
    }
    NAME(settle)(r, LINEAR_SUMS, t->classes);
}

static void NAME(identity_gradient)(const task *t, NAME(rows) * r, REAL *restrict x, NAME(by) l) {
    for (int64_t c = 0; c < t->classes; c++, x += LANES) {
        REAL yes = l.positive[c], no = l.negative[c];
        INT here = (INT)c;
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL by = r->label[i] == here ? yes : no;
            x[i] = x[i] * (by - r->l_h[i]) * (REAL)r->weight[i];
        }
    }
}

/* The sigmoid: p in place of exponentials, and in `h` the degrees, or, with `l`, their slopes. */
static void NAME(sigmoid_sums)(const task *t, NAME(rows) * r, REAL *restrict x, REAL *restrict h,
                               REAL k, NAME(by) l) {
    for (int i = 0; i < LANES; i++) r->others[i] = r->h_top[i] = 0;
    for (int64_t c = 0; c < t->classes; c++, x += LANES, h += LANES) {
        REAL yes = l.positive ? l.positive[c] : 0, no = l.negative ? l.negative[c] : 0;
        INT here = (INT)c;
        NAME(carry)(r, SUMS, c);
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL p = x[i] * r->per_t[i], tau = (1 + r->e_second[i]) * r->per_t[i] / 2;
            REAL above = k * (p - tau), e = NAME(exp_of)(NAME(min_of)(above, -above));
            REAL d = 1 / (1 + e), e_d = e * d, degree = above < 0 ? e_d : d, slope = k * e_d * d;
            int is_top = r->first_place[i] == here;
            r->others[i] += NAME(where)(!is_top, degree), r->h_top[i] += NAME(where)(is_top, degree);
            REAL by = r->label[i] == here ? yes : no;
            r->l_h[i] += by * degree;
            r->sum_s[i] += slope, r->l_s[i] += by * slope;
            r->p_s[i] += p * slope, r->p_l_s[i] += by * p * slope;
            x[i] = p;
            h[i] = l.positive ? slope : degree;
        }
    }
    NAME(settle)(r, SUMS, t->classes);
    for (int i = 0; i < LANES; i++) {
        r->whole[i] = r->others[i] + r->h_top[i];
        r->sum_h[i] = (REAL)r->whole[i];
    }
}

/* The gradient, in place of p. */
static void NAME(sigmoid_gradient)(const task *t, NAME(rows) * r, REAL *restrict x,
                                   const REAL *restrict slope, NAME(by) l) {
    for (int i = 0; i < LANES; i++) {
        REAL scale = (REAL)r->weight[i] / r->sum_h[i], mean = r->l_h[i] / r->sum_h[i];
        REAL lambda = -(r->l_s[i] - mean * r->sum_s[i]) * scale / 2;
        REAL drift = (r->p_l_s[i] - mean * r->p_s[i]) * scale;
        r->at_top[i] = lambda * r->per_t[i], r->at_second[i] = r->at_top[i] * r->e_second[i];
        r->pull[i] = drift + r->at_top[i] + r->at_second[i];
        r->mean[i] = mean, r->scale[i] = scale;
    }
    for (int64_t c = 0; c < t->classes; c++, x += LANES, slope += LANES) {
        REAL yes = l.positive[c], no = l.negative[c];
        INT here = (INT)c;
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            REAL by = r->label[i] == here ? yes : no;
            REAL g = x[i] * ((by - r->mean[i]) * r->scale[i] * slope[i] - r->pull[i]);
            g += NAME(where)(r->first_place[i] == here, r->at_top[i]);
            x[i] = g + NAME(where)(r->second_place[i] == here, r->at_second[i]);
        }
    }
}

/* --- a block, and all of them ------------------------------------------------------------------- */

/* What a call works with; the derivatives by the degrees are null in the forward pass. */
typedef struct {
    REAL *z, *h, *positive, *negative;
    double *cells; /* tp, fp, fn, tn of all classes */
} NAME(work);

/* The cells grow by w g and w (1 - g), in double: what a row gives to all classes is its weight. Only
   the largest g can be next to 1, and for it 1 - g is what the others have. The linear step has left
   its largest out. */
static void NAME(add_rows)(const task *t, NAME(rows) * r, const REAL *restrict h, NAME(work) * k) {
    int64_t classes = t->classes;
    double scale[LANES], others[LANES];
    for (int i = 0; i < LANES; i++) {
        scale[i] = r->weight[i] / r->whole[i];
        r->at_top[i] = t->step == LINEAR ? r->h_top[i] : 0;
        others[i] = r->others[i] * scale[i];
    }
    for (int64_t c = 0; c < classes; c++, h += LANES) {
        double tp = 0, fp = 0, fn = 0, tn = 0;
        INT here = (INT)c;
#pragma omp simd reduction(+ : tp, fp, fn, tn)
        for (int i = 0; i < LANES; i++) {
            int is_top = r->first_place[i] == here, own = r->label[i] == here;
            REAL degree = h[i] + NAME(where)(is_top, r->at_top[i]);
            double g = degree * scale[i], rest = is_top ? others[i] : r->weight[i] - g;
            tp += own ? g : 0, fp += own ? 0 : g;
            fn += own ? rest : 0, tn += own ? 0 : rest;
        }
        k->cells[c] += tp, k->cells[classes + c] += fp;
        k->cells[2 * classes + c] += fn, k->cells[3 * classes + c] += tn;
    }
}

static int NAME(multiclass_block)(const task *t, NAME(rows) * r, NAME(work) * k,
                                  const double *level, const positions *p, double *heaviest) {
    int some_ignored, outcome = NAME(read_rows)(t, p, r, &some_ignored, heaviest);
    if (outcome) return outcome;
    NAME(read_scores)(t, p, k->z);
    if (NAME(clean)(k->z, some_ignored ? r->ignored : 0, t->classes)) return BAD_SCORES;
    if (NAME(find_two)(t, r, k->z)) return BAD_SCORES;
    REAL *degrees = k->z;
    NAME(by) l = {k->positive, k->negative};
    int backward = k->positive != 0;
    if (t->step == LINEAR) {
        NAME(linear) linear = NAME(linear_of)(level);
        NAME(before_linear)(r);
        if (backward) NAME(linear_sums)(t, r, k->z, linear, l);
        else NAME(linear_degrees)(t, r, k->z, linear);
        NAME(after_linear)(r, linear);
        if (backward) NAME(linear_gradient)(t, r, k->z, linear, l);
    } else {
        NAME(exponentials)(t, r, k->z);
        if (t->step == IDENTITY) {
            if (backward) {
                NAME(identity_sums)(t, r, k->z, l);
                NAME(identity_gradient)(t, r, k->z, l);
            }
        } else {
            NAME(sigmoid_sums)(t, r, k->z, k->h, (REAL)level[0], l);
            if (backward) NAME(sigmoid_gradient)(t, r, k->z, k->h, l);
            degrees = k->h;
        }
    }
    if (backward) NAME(write_gradient)(t, p, k->z);
    else NAME(add_rows)(t, r, degrees, k);
    return DONE;
}

static size_t NAME(multiclass_bytes)(const task *t) {
    size_t classes = (size_t)t->classes;
    return sizeof(NAME(rows)) + sizeof(REAL) * (2 * classes * LANES + 2 * classes);
}

static int NAME(multiclass)(const task *t, int backward, part *of, char *memory) {
    int64_t classes = t->classes, b = of->problem;
    NAME(rows) *r = (NAME(rows) *)memory;
    NAME(work) k = {.z = (REAL *)(memory + sizeof(NAME(rows))), .cells = of->sums};
    k.h = k.z + classes * LANES;
    if (backward) k.positive = k.h + classes * LANES, k.negative = k.positive + classes;
    for (int64_t c = 0; backward && c < classes; c++) {
        k.positive[c] = (REAL)t->positive[b * classes + c];
        k.negative[c] = (REAL)t->negative[b * classes + c];
    }
    const double *level = t->levels + LEVEL * b * t->level_batch;
    int outcome = DONE;
    positions p = begin(t, of);
    while (!outcome && next_block(t, b, &p))
        outcome = NAME(multiclass_block)(t, r, &k, level, &p, &of->heaviest);
    return outcome;
}
