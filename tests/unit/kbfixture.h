/* A knowledge base for a unit test: the embedded one. */
#pragma once

#include <stdlib.h>

#include "base/root.h"
#include "kb/kb.h"

struct fixture {
    struct arena arena;
    struct root root;
    struct kb kb;
    struct gm_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    arena_init(&f->arena, 0, NULL, NULL);
    f->root = ROOT_EMPTY;
    *state = f;
    return root_open(&f->root, "/", &f->err) < 0 ||
           kb_open(&f->kb, &f->arena, &f->root, NULL, &f->err) < 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    root_close(&f->root);
    arena_release(&f->arena);
    free(f);
    return 0;
}
