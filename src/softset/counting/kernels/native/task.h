/* What Python asks for. The fields are those of `Task` in task.py, in the same order. */

#ifndef SOFTSET_TASK_H
#define SOFTSET_TASK_H

#include <stddef.h>
#include <stdint.h>

/* Steps of a tensor from one number to the next, in numbers, along each dimension. */
typedef struct {
    int64_t batch, outer, middle, inner, class;
} strides;

/* Scores are [batch, outer, middle, inner, classes]: `batch` are problems of their own, the three
   in the middle are positions. Target and weights have the same dimensions, but for the classes. */
typedef struct {
    const void *scores;
    void *gradient; /* what the backward pass writes */
    const void *target;
    const void *weight;         /* of each position, or null */
    const double *class_weight; /* one for each class; two for binary problems; or null */
    const double *levels;       /* what the step needs to know: [batch, classes, levels, LEVEL] */
    const double *positive;     /* derivatives by the degrees of positives, [batch, classes, levels] */
    const double *negative;     /* and of negatives */
    double *sums; /* what the forward pass writes: tp, fp, fn, tn */
    int64_t batch, outer, middle, inner, classes;
    strides of_scores, of_gradient, of_target, of_weight;
    int64_t wide_scores, wide_weight; /* float64 instead of float32 */
    int64_t wide_work;                /* float64 arithmetic */
    int64_t target_kind;              /* enum kind */
    int64_t step;                     /* enum step */
    int64_t level_batch, level_class; /* strides of `levels`, in levels; 0: the same for all */
    int64_t level_count;              /* thresholds of a grid */
    int64_t from_logits;
    int64_t soft;    /* labels are fractions */
    int64_t ignores; /* whether `ignored` marks positions to leave out */
    int64_t ignored;
    int64_t threads; /* at most, by */
    void (*parallel)(void (*work)(void *), void *, unsigned threads, unsigned flags); /* OpenMP's */
} task;

/* Positions of a problem that are counted by themselves, their sums, and the heaviest weight. */
typedef struct {
    int64_t problem, from, to;
    double *sums, heaviest;
} part;

/* Kernels in float and in double: the bytes they work in, and what does a part. */
typedef struct {
    size_t (*bytes[2])(const task *);
    int (*run[2])(const task *, int backward, part *, char *memory);
} family;

enum kind { INT64, UINT8, FLOAT32, FLOAT64, INT32 };
enum step { LINEAR, SIGMOID, IDENTITY };

/* What a call returns. In every case but `DONE` its numbers mean nothing: the PyTorch code is asked
   instead, which knows what to do, or which error to raise. */
enum outcome { DONE, BAD_SCORES, BAD_TARGET, BAD_WEIGHT, NO_MEMORY };

/* Numbers of a level. Linear, binary: the corner a, the slopes m1, m2, m3, 1 - b, tau and b. Linear,
   multiclass: delta and width. Sigmoid: k and, binary, tau in the same place. */
enum { LEVEL = 7 };

#endif
