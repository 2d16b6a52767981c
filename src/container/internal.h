/*
 * What the files share that work out settings: one question, the settings being made, and how a
 * thing gets into them. What comes from an image is checked here, so that no renderer meets bytes
 * that could leave their place.
 */
#ifndef GPUMEND_CONTAINER_INTERNAL_H
#define GPUMEND_CONTAINER_INTERNAL_H

#include "container/settings.h"

struct container_work {
    const struct container_question *q;
    struct arena *a;
    struct container_settings *s;
    container_items path;  // folders of LD_LIBRARY_PATH
    container_items built; // those that only the lines for the image make
};

/* Add what the list does not have. */
void container_add(struct container_work *w, container_items *list, const char *value,
                   const char *reason);
void container_note(struct container_work *w, const char *text);

/* What the image's own environment sets it to, or NULL: nothing, or no text (a note says so). */
const char *container_own_value(struct container_work *w, const char *name);

/* Sets a variable. What is no text (control characters, bytes that are not UTF-8) is a note. */
void container_set(struct container_work *w, const char *name, const char *value,
                   const char *reason);

/* Whether one of the distributions is in the environment; *ret: which. */
bool container_uses_package(const struct model *m, const char *const *names, size_t n,
                            const char **ret);

/* The GPU whose vendor's settings the container gets: of the one vendor that the application asks
 * for, if the host has any of it; else of the first that programs can use. NULL: none (pick.c). */
const struct host_gpu *container_gpu_for(const struct host *h, struct model *m);

/* Everything about the GPU and the driver (ask.c). */
void container_ask(struct container_work *w);

/* How to try it, and which CUDA meets which driver (proof.c). */
void container_prove(struct container_work *w);

/* Mounts the libraries that the image lacks and the host has (libraries.c). */
void container_mount_lacks(struct container_work *w);

#endif
