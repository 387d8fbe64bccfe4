/* Blocks of LANES positions: their scores class by class in a buffer `[classes][LANES]`, a lane for
   each position. It is read from wherever the scores lie, and gradients go back the same way. */

/* 4 x 4 numbers, rows to columns. */
static inline void NAME(transpose4)(const REAL *from, int64_t step, REAL *to, int64_t to_step) {
    typedef REAL four __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL))));
    four a = *(const four *)from, b = *(const four *)(from + step);
    four c = *(const four *)(from + 2 * step), d = *(const four *)(from + 3 * step);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), AB = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)(to + to_step) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * to_step) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
    *(four *)(to + 3 * to_step) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

/* Rows of numbers side by side to columns, `rows` x `columns`. */
static void NAME(transpose)(const REAL *from, int64_t step, REAL *to, int64_t to_step, int64_t rows,
                            int64_t columns) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        int64_t c = 0;
        for (; c + 4 <= columns; c += 4)
            NAME(transpose4)(from + r * step + c, step, to + c * to_step + r, to_step);
        for (; c < columns; c++)
            for (int64_t i = r; i < r + 4; i++)
                to[c * to_step + i] = from[i * step + c];
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[c * to_step + r] = from[r * step + c];
}

#define OTHER REAL
#define OTHER_NAME(x) NAME(x##_same)
#define SAME 1
#include "gather.h"
#undef OTHER
#undef OTHER_NAME
#undef SAME
#if WIDE
#define OTHER float
#define OTHER_NAME(x) NAME(x##_float)
#define SAME 0
#include "gather.h"
#undef OTHER
#undef OTHER_NAME
#undef SAME
#endif

/* The scores of a block. Lanes beyond those in use are filled with zeros. */
static void NAME(read_scores)(const task *t, const positions *p, REAL *buffer) {
    const strides *s = &t->of_scores;
    for (const run *n = p->runs; n < p->runs + p->count; n++) {
#if WIDE
        if (!t->wide_scores)
            NAME(gather_float)((const float *)t->scores + n->at[SCORES], s, t->classes, n->used,
                               buffer + n->lane);
        else
#endif
            NAME(gather_same)((const REAL *)t->scores + n->at[SCORES], s, t->classes, n->used,
                              buffer + n->lane);
    }
    for (int64_t c = 0; p->used < LANES && c < t->classes; c++)
        for (int64_t i = p->used; i < LANES; i++) buffer[c * LANES + i] = 0;
}

static void NAME(write_gradient)(const task *t, const positions *p, const REAL *g) {
    const strides *s = &t->of_gradient;
    for (const run *n = p->runs; n < p->runs + p->count; n++) {
#if WIDE
        if (!t->wide_scores)
            NAME(scatter_float)((float *)t->gradient + n->at[GRADIENT], s, t->classes, n->used,
                                g + n->lane);
        else
#endif
            NAME(scatter_same)((REAL *)t->gradient + n->at[GRADIENT], s, t->classes, n->used,
                               g + n->lane);
    }
}

/* Scores that are left out may be anything, and become 0; returns whether another one is NaN. */
static int NAME(clean)(REAL *x, const INT *ignored, int64_t classes) {
    INT bad = 0;
    for (int64_t c = 0; c < classes; c++, x += LANES) {
        if (ignored)
            for (int i = 0; i < LANES; i++) x[i] = ignored[i] ? 0 : x[i];
#pragma omp simd reduction(| : bad)
        for (int i = 0; i < LANES; i++) bad |= NAME(is_nan)(x[i]);
    }
    return bad != 0;
}

/* The numbers that a block has of class `c` in one of the tensors, as `to` of another type. */
#define READ(to, type, memory, which, s, c)                                                        \
    for (const run *n = p->runs; n < p->runs + p->count; n++) {                                    \
        const type *from_ = (const type *)(memory) + n->at[which] + (c) * (s)->class;              \
        __typeof__(*(to)) *to_ = (to) + n->lane;                                                   \
        int64_t used = n->used, step = (s)->inner;                                                 \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < used; i++) to_[i] = (__typeof__(*to_))from_[i];                \
        else                                                                                       \
            for (int64_t i = 0; i < used; i++) to_[i] = (__typeof__(*to_))from_[i * step];         \
    }

/* Weights of class `c` of a block, 0 beyond the lanes in use; returns whether one is negative or not
   finite. They stay double: sums are weighted in double, whatever the scores are. */
static int NAME(read_weights)(const task *t, const positions *p, int64_t c, double *w,
                              double *heaviest) {
    int bad = 0;
    double most = *heaviest;
    for (int i = 0; i < LANES; i++) w[i] = i < p->used;
    if (!t->weight) return 0;
    if (t->wide_weight) READ(w, double, t->weight, WEIGHT, &t->of_weight, c)
    else READ(w, float, t->weight, WEIGHT, &t->of_weight, c)
    for (int i = 0; i < LANES; i++) {
        bad |= (w[i] < 0) | NAME(not_finite)((REAL)w[i]);
        most = w[i] > most ? w[i] : most;
    }
    *heaviest = most;
    return bad;
}
