/* All kernels for one kind of processor, in float and in double. Compiled once for each kind, with
   SUFFIX to tell them apart; `dispatch.c` takes the best one that the processor has. */

#include <stddef.h>
#include <stdint.h>

#include "task.h"

enum { LANES = 64 }; /* positions in a block */

/* Sums over classes are REAL for so many classes, and double from one such run to the next: else each
   of 30,000 classes would add its rounding. And how many such sums a pass has. */
enum { RUN = 16, FORWARD_SUMS = 2, LINEAR_SUMS = 5, SUMS = 7 };

enum { SCORES, TARGET, WEIGHT, GRADIENT };

/* Positions that lie side by side, or evenly apart: where they begin in the four tensors, their
   first lane, and how many they are. */
typedef struct {
    int64_t at[4], lane, used;
} run;

/* The positions of a block, `used` in all, where the next one begins, and how many are left. A block
   goes on in the next row, so that narrow images fill it too. */
typedef struct {
    run runs[LANES];
    int64_t count, used, o, m, i, left;
} positions;

static int64_t place(const strides *s, int64_t b, int64_t o, int64_t m, int64_t i) {
    return b * s->batch + o * s->outer + m * s->middle + i * s->inner;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Before the first block of a part. */
static positions begin(const task *t, const part *of) {
    int64_t rows = of->from / t->inner;
    return (positions){.o = rows / t->middle, .m = rows % t->middle, .i = of->from % t->inner,
                       .left = of->to - of->from};
}

/* The next positions of problem `b`; whether there are any. */
static int next_block(const task *t, int64_t b, positions *p) {
    p->count = p->used = 0;
    while (p->used < LANES && p->left > 0) {
        int64_t used = least(least(t->inner - p->i, LANES - p->used), p->left);
        p->runs[p->count++] = (run){{place(&t->of_scores, b, p->o, p->m, p->i),
                                     place(&t->of_target, b, p->o, p->m, p->i),
                                     place(&t->of_weight, b, p->o, p->m, p->i),
                                     place(&t->of_gradient, b, p->o, p->m, p->i)},
                                    p->used, used};
        p->used += used, p->i += used, p->left -= used;
        if (p->i == t->inner) {
            p->i = 0;
            if (++p->m == t->middle) p->m = 0, p->o++;
        }
    }
    return p->used > 0;
}

/* Weights that are nothing next to others of about 1, as in the PyTorch code. */
static void drop_nothing(const task *t, double *w) {
    for (int i = 0; (t->weight || t->class_weight) && i < LANES; i++) w[i] = w[i] < 1e-30 ? 0 : w[i];
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#define REAL float
#define INT int32_t
#define WIDE 0
#define MAGNITUDE 0x7fffffff
#define INFINITE 0x7f800000
#define NAME(x) x##_f
#include "real.h"
#include "blocks.h"
#include "multiclass.h"
#include "binary.h"
#include "bins.h"
#undef REAL
#undef INT
#undef WIDE
#undef MAGNITUDE
#undef INFINITE
#undef NAME

#define REAL double
#define INT int64_t
#define WIDE 1
#define MAGNITUDE 0x7fffffffffffffff
#define INFINITE 0x7ff0000000000000
#define NAME(x) x##_d
#include "real.h"
#include "blocks.h"
#include "multiclass.h"
#include "binary.h"
#include "bins.h"

const family JOIN(multiclass, SUFFIX) = {
    {multiclass_bytes_f, multiclass_bytes_d}, {multiclass_f, multiclass_d}};
const family JOIN(binary, SUFFIX) = {{binary_bytes_f, binary_bytes_d}, {binary_f, binary_d}};
const family JOIN(bins, SUFFIX) = {{binary_bytes_f, binary_bytes_d}, {bins_f, bins_d}};
