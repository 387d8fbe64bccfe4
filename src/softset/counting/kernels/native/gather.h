/* Between numbers of type OTHER in strided memory and the buffer `[classes][LANES]` of a block. */

static void OTHER_NAME(gather)(const OTHER *z, const strides *s, int64_t classes, int64_t used,
                               REAL *restrict buffer) {
    if (s->inner == 1) {
        for (int64_t c = 0; c < classes; c++) {
            const OTHER *from = z + c * s->class;
            REAL *to = buffer + c * LANES;
            if (used == LANES)
                for (int i = 0; i < LANES; i++) to[i] = from[i];
            else
                for (int64_t i = 0; i < used; i++) to[i] = from[i];
        }
#if SAME
    } else if (s->class == 1 && classes >= 4) {
        NAME(transpose)(z, s->inner, buffer, LANES, used, classes);
#endif
    } else {
        for (int64_t i = 0; i < used; i++)
            for (int64_t c = 0; c < classes; c++)
                buffer[c * LANES + i] = z[i * s->inner + c * s->class];
    }
}

static void OTHER_NAME(scatter)(OTHER *restrict out, const strides *s, int64_t classes, int64_t used,
                                const REAL *g) {
    if (s->inner == 1) {
        for (int64_t c = 0; c < classes; c++)
            for (int64_t i = 0; i < used; i++)
                out[c * s->class + i] = (OTHER)g[c * LANES + i];
#if SAME
    } else if (s->class == 1 && classes >= 4) {
        NAME(transpose)(g, LANES, out, s->inner, classes, used);
#endif
    } else {
        for (int64_t i = 0; i < used; i++)
            for (int64_t c = 0; c < classes; c++)
                out[i * s->inner + c * s->class] = (OTHER)g[c * LANES + i];
    }
}
