/* Arithmetic in REAL, which is float or double, on lanes: numbers side by side, of which a processor
   takes several at a time. All loops over lanes are plain loops that the compiler vectorizes. */

/* x where the condition holds, else 0. By bits: the compiler would rather not compute x at all where
   it is not wanted, and then could not take several at a time. */
static inline REAL NAME(where)(int condition, REAL x) {
    union { REAL real; INT bits; } u = {x};
    u.bits &= -(INT)condition;
    return u.real;
}

/* exp(x) for x <= 0, to two units in the last place; 0 from 1e-38 (1e-307) down. With n the nearest
   whole number to x / ln 2 and f = x - n ln 2, |f| <= 0.35: 2^n times a polynomial in f. */
static inline REAL NAME(exp_of)(REAL x) {
    REAL least = WIDE ? (REAL)-708.0 : (REAL)-87.0;
    REAL c = x < least ? least : x;
    int32_t n = (int32_t)(c * (REAL)1.4426950408889634 - (REAL)0.5);
    /* ln 2 in two parts, of which the first has few digits: n times it is exact. */
#if WIDE
    REAL f = c - (REAL)n * 6.93145751953125e-1;
    f = f - (REAL)n * 1.42860682030941723212e-6;
    REAL y = 1.0 / 6227020800;
    y = y * f + 1.0 / 479001600;
    y = y * f + 1.0 / 39916800;
    y = y * f + 1.0 / 3628800;
    y = y * f + 1.0 / 362880;
    y = y * f + 1.0 / 40320;
    y = y * f + 1.0 / 5040;
    y = y * f + 1.0 / 720;
    y = y * f + 1.0 / 120;
    y = y * f + 1.0 / 24;
    y = y * f + 1.0 / 6;
    y = y * f + 0.5;
    y = y * f + 1.0;
    y = y * f + 1.0;
    union { int64_t bits; double real; } two = {((int64_t)n + 1023) << 52};
#else
    REAL f = c - (REAL)n * 6.93359375e-1f;
    f = f - (REAL)n * -2.12194440e-4f;
    REAL y = 1.9875691500e-4f;
    y = y * f + 1.3981999507e-3f;
    y = y * f + 8.3334519073e-3f;
    y = y * f + 4.1665795894e-2f;
    y = y * f + 1.6666665459e-1f;
    y = y * f + 5.0000001201e-1f;
    y = y * f * f + f + 1.0f;
    union { int32_t bits; float real; } two = {(n + 127) << 23};
#endif
    return NAME(where)(x >= least, y * two.real);
}

static inline REAL NAME(min_of)(REAL a, REAL b) { return a < b ? a : b; }
static inline REAL NAME(max_of)(REAL a, REAL b) { return a > b ? a : b; }

/* Whether a number is infinite or NaN (or NaN only), by its bits: the compiler is told that neither
   occurs, and would leave out a comparison of floats. */
static inline int NAME(not_finite)(REAL x) {
    union { REAL real; INT bits; } u = {x};
    return (u.bits & MAGNITUDE) >= INFINITE;
}

static inline INT NAME(is_nan)(REAL x) {
    union { REAL real; INT bits; } u = {x};
    return (u.bits & MAGNITUDE) > INFINITE;
}
