/*
 * What the builders of CDI specifications share (cdi.c), and how the driver's libraries come before
 * an image's own copies of them (place.c). Everything belongs to the arena and to the document.
 *
 * A library that is mounted where the loader looks last loses to a copy that the image's
 * ld.so.cache or LD_LIBRARY_PATH names. So the driver's libraries lie in a folder of their own,
 * which is made to come first in one of two ways:
 *
 *   hooks   nvidia-cdi-hook of the host writes the links and the container's ld.so.cache, with the
 *           folder before all others (nvidia-container-toolkit, internal/discover/hooks.go,
 *           internal/ldconfig). Not before a folder that the image's LD_LIBRARY_PATH names, nor
 *           before one of a file of ld.so.conf.d that sorts before 00-nvcr-*.conf.
 *   env     LD_LIBRARY_PATH of the specification, where there is no such hook. Engines put it in
 * the place of the image's and of the caller's own (AddMultipleProcessEnv of runtime-tools, which
 * the reference library calls; podman 4.3.1 does so).
 *
 * The libraries that compute lie in the loaders' usual folders as well: for programs whose
 * environment is cleared, and for images without an ld.so.cache, where hooks before release 1.18
 * write none.
 */
#ifndef GPUMEND_CDI_BUILD_H
#define GPUMEND_CDI_BUILD_H

#include "cdi/cdi.h"

struct cdi_builder {
    struct root *root;
    struct arena *arena;
    const struct host *host;
    enum cdi_way way;
    struct cdi_specs *specs;
};

void cdi_set(json_t *object, const char *key, json_t *value);
/* The list of this name; made where there is none. */
json_t *cdi_list(json_t *object, const char *key);
void cdi_append(json_t *list, json_t *value);

json_t *cdi_new_document(const char *kind);
/* Returns the edits of the new device. */
json_t *cdi_add_device(json_t *document, const char *name);
/* Those that are here. */
void cdi_add_nodes(json_t *edits, const struct host_node *nodes, size_t n, bool with_group);
void cdi_add_mount(json_t *edits, const char *from, const char *to);
/* A socket, or a folder of them, which programs write to. */
void cdi_add_socket(json_t *edits, const char *path);

/* Whether the GPU can be passed on; if not, it is among those left out. */
bool cdi_can_pass_on(struct cdi_builder *b, const struct host_gpu *g);
void cdi_leave_out(struct cdi_builder *b, const struct host_gpu *g, const char *why);

/* Adds the device "all" and the version, and the document to the list; drops it without devices. */
void cdi_finish(struct cdi_builder *b, json_t *document, const char *file, const char *note);

/* The driver of NVIDIA's on a bus; and of Jetson boards. */
void cdi_build_nvidia(struct cdi_builder *b);
void cdi_build_tegra(struct cdi_builder *b);

/* ------------------------------------------------------------------ libraries */

struct cdi_place {
    struct cdi_builder *b;
    json_t *edits;
    const char *hook;   // the program on the host, or NULL: no hooks are written
    host_texts folders; // of the container, to come first
    host_texts links;   // "TARGET::LINK", for the hook
};

void cdi_place_begin(struct cdi_builder *b, json_t *edits, struct cdi_place *ret);

/* A library under its own name, and a second name of one. `usual`: in the usual folders as well. */
void cdi_place_library(struct cdi_place *p, const char *real, const char *name, bool usual);
void cdi_place_link(struct cdi_place *p, const char *real, const char *name, const char *link,
                    bool usual);

/* A file below each of the usual folders alone: "vdpau/libvdpau_nvidia.so.1". */
void cdi_place_below(struct cdi_place *p, const char *real, const char *name);

/* A folder of the container that comes first; what lies in it is mounted by whoever calls. */
void cdi_place_folder(struct cdi_place *p, const char *folder);

/* A symbolic link of the container to `target`; without hooks the file `real` of the host itself.
 */
void cdi_place_symlink(struct cdi_place *p, const char *real, const char *target, const char *link);

/* The hooks of the document, or the variable. */
void cdi_place_end(struct cdi_place *p);

/* Hooks of one device: links to its nodes, and rights to their folders where crun needs it. */
void cdi_place_nodes(struct cdi_place *p, json_t *edits, const struct host_gpu *g, bool with_mig);

#endif
