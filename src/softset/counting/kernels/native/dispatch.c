/* The best kernels that the processor has. */

#include "task.h"

#define DECLARE(suffix)                                                                            \
    int multiclass##suffix(const task *, int);                                                     \
    int binary##suffix(const task *, int);                                                         \
    int bins##suffix(const task *, int);

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

#define DISPATCH(name)                                                                             \
    switch (level()) {                                                                             \
    case 2: return name##_avx512(t, backward);                                                     \
    case 1: return name##_avx2(t, backward);                                                       \
    default: return name##_plain(t, backward);                                                     \
    }
#else
#define DISPATCH(name) return name##_plain(t, backward);
#endif

int softset_multiclass(const task *t, int backward) { DISPATCH(multiclass) }
int softset_binary(const task *t, int backward) { DISPATCH(binary) }
int softset_bins(const task *t, int backward) { DISPATCH(bins) }
int softset_task_size(void) { return (int)sizeof(task); }
