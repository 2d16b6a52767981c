/*
 * Which image is meant, where an archive or a layout holds several: by name as `podman load` and
 * skopeo know them (containers-transports(5): docker-archive:PATH:NAME, PATH:@N), by the digest of
 * its manifest, or by its number. And of one image for several platforms the manifest that an
 * engine would take (OCI image specification, image-index.md; containerd, platforms/compare.go).
 * Reads no files.
 */
#ifndef GPUMEND_IMAGE_CONTENTS_H
#define GPUMEND_IMAGE_CONTENTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

typedef VEC(const char *) image_texts;

/* "linux/arm64/v8" */
struct image_platform {
    const char *os, *architecture; // as GOOS and GOARCH name them
    const char *variant;           // or NULL
};

/* "linux/arm64", "linux/arm64/v8"; x86_64 and aarch64 are known too. GM_ERR_USAGE: it is none. */
int image_platform_parse(struct arena *a, const char *text, struct image_platform *ret,
                         struct gm_err *err) GM_CHECK;

/* The platform of a processor (EM_*, elf.h); architecture NULL: not one that images are made for.
 */
struct image_platform image_platform_of(unsigned machine);

const char *image_platform_text(struct arena *a, const struct image_platform *p);

/* Whether an image for `is` is one for `wanted`; a variant counts only where both have one. */
bool image_platform_fits(const struct image_platform *is, const struct image_platform *wanted);

/* One image. */
struct image_content {
    image_texts names;               // as the archive says them
    const char *digest;              // of its manifest, or NULL
    const char *reference;           // of an index: what skopeo chooses it by, or NULL
    VEC(const json_t *) descriptors; // an element of manifest.json, or of an index: one a platform
    size_t number;                   // the position of the first, from 0
};
typedef VEC(struct image_content) image_contents;

/* The images of manifest.json, and those of an index.json. Signatures and attestations are none. */
void image_contents_saved(struct arena *a, const json_t *manifest, image_contents *ret);
void image_contents_index(struct arena *a, const json_t *index, image_contents *ret);

/* The one that a name, a digest or "@N" means; NULL: the only one. *ret: its index. GM_ERR_USAGE:
 * none or several, and which there are. GM_ERR_FORMAT: there is no image. */
int image_contents_choose(struct arena *a, const image_contents *list, const char *name,
                          const char *path, size_t *ret, struct gm_err *err) GM_CHECK;

/* Of the manifests of one image the one for the platform; a single one is taken without a question.
 * The error is as before. */
int image_manifest_choose(struct arena *a, const json_t *const *list, size_t n,
                          const struct image_platform *wanted, const json_t **ret,
                          struct gm_err *err) GM_CHECK;

/* Whether the descriptor is of a signature, an attestation or another thing that no engine starts.
 */
bool image_is_attachment(const json_t *descriptor);

/* Whether `name` ("app", "app:1") means the full name ("localhost/app:1"). */
bool image_is_named(struct arena *a, const char *full, const char *name);

/* Whether a name is a reference (distribution/reference, reference.go) that a command may hold. */
bool image_is_reference(const char *name);

#endif
