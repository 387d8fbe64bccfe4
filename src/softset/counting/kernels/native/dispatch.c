/* The best kernels that the processor has, on as many threads as there is work for. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "task.h"

#define DECLARE(suffix) extern const family multiclass##suffix, binary##suffix, bins##suffix;

DECLARE(_plain)
#ifdef BY_PROCESSOR
DECLARE(_avx2)
DECLARE(_avx512)

static int level(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int kind(void) { return level(); }

#define BEST(name) (kind() == 2 ? &name##_avx512 : kind() ? &name##_avx2 : &name##_plain)
#else
#define BEST(name) (&name##_plain)
#endif

/* Scores of a part, and positions at least, so that its sums are few next to it; two such parts are
   shared by threads. They depend on the shape alone, so that the numbers are the same for every number
   of threads. */
enum { SCORES_OF_PART = 1 << 14, LEAST_POSITIONS = 512, MOST_THREADS = 64 };

typedef struct {
    const task *t;
    const family *kernels;
    int backward;
    int64_t size, parts, positions; /* of a part; in a problem; in a problem */
    int64_t many, apart;            /* numbers in the sums of a part, and to the next one's */
    double *sums;                   /* of all parts */
    _Atomic int64_t next;
    atomic_int outcome, workers;
    double heaviest[MOST_THREADS];
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Parts, one after the other, as long as there are any. */
static void work(job *j, int number) {
    const task *t = j->t;
    size_t bytes = j->kernels->bytes[t->wide_work](t);
    char *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) j->outcome = NO_MEMORY;
    while (!j->outcome) {
        int64_t i = j->next++;
        if (i >= j->parts * t->batch) break;
        int64_t from = i % j->parts * j->size;
        part of = {i / j->parts, from, least(from + j->size, j->positions), 0, j->heaviest[number]};
        if (!j->backward) of.sums = memset(j->sums + i * j->apart, 0, sizeof(double) * j->many);
        int outcome = j->kernels->run[t->wide_work](t, j->backward, &of, memory);
        if (outcome) j->outcome = outcome;
        j->heaviest[number] = of.heaviest;
    }
    free(memory);
}

/* What OpenMP calls on each thread. */
static void work_of(void *j) { work(j, ((job *)j)->workers++); }

/* Whether a call has threads already: one from another thread then does its work alone. */
static atomic_flag threaded = ATOMIC_FLAG_INIT;

/* Weights whose largest is far from 1 are counted in units of it, by the PyTorch code. */
static int usual(double heaviest) { return heaviest >= 1e-6 && heaviest <= 1e6; }

/* `many` numbers are the sums of a problem. */
static int run(const task *t, int backward, const family *kernels, int64_t many) {
    job j = {t, kernels, backward, .positions = t->outer * t->middle * t->inner, .many = many};
    int64_t size = SCORES_OF_PART / t->classes;
    size = (size > LEAST_POSITIONS ? size : LEAST_POSITIONS) / 64 * 64;
    j.size = size, j.parts = (j.positions + size - 1) / size;
    /* The sums of one part are those of the problem; else they are added up in the order of parts.
       Each part has cache lines of its own. */
    j.sums = t->sums, j.apart = many;
    if (!backward && j.parts > 1) {
        j.apart = (many + 15) / 8 * 8;
        j.sums = aligned_alloc(64, sizeof(double) * (size_t)(j.parts * t->batch * j.apart));
        if (!j.sums) return NO_MEMORY;
    }
    int threads = (int)least(least(t->threads, MOST_THREADS), j.parts * t->batch);
    int alone = threads < 2 || !t->parallel || j.positions * t->batch * t->classes < 2 * SCORES_OF_PART ||
                atomic_flag_test_and_set(&threaded);
    if (alone) work(&j, 0);
    else {
        t->parallel(work_of, &j, (unsigned)threads, 0);
        atomic_flag_clear(&threaded);
    }
    if (j.sums != t->sums) {
        for (int64_t b = 0; b < t->batch; b++) {
            double *to = t->sums + b * many, *from = j.sums + b * j.parts * j.apart;
            memcpy(to, from, sizeof(double) * (size_t)many);
            for (int64_t k = 1; k < j.parts; k++)
                for (int64_t i = 0; i < many; i++) to[i] += from[k * j.apart + i];
        }
        free(j.sums);
    }
    double heaviest = 0;
    for (int i = 0; i < MOST_THREADS; i++) heaviest = j.heaviest[i] > heaviest ? j.heaviest[i] : heaviest;
    return j.outcome ? j.outcome : t->weight && !usual(heaviest) ? BAD_WEIGHT : DONE;
}

int softset_multiclass(const task *t, int backward) {
    return run(t, backward, BEST(multiclass), 4 * t->classes);
}

int softset_binary(const task *t, int backward) {
    return run(t, backward, BEST(binary), t->classes * 4 * t->level_count);
}

int softset_bins(const task *t, int backward) {
    return run(t, backward, BEST(bins), t->classes * 4 * (t->level_count + 1));
}

int softset_task_size(void) { return (int)sizeof(task); }
