/* What writing and reading the document share. */
#ifndef GPUMEND_SNAPSHOT_INTERNAL_H
#define GPUMEND_SNAPSHOT_INTERNAL_H

#include "snapshot/snapshot.h"

/* Names that are not UTF-8 are written as base64 behind this. */
#define SNAPSHOT_BASE64_MARK "base64:"

enum {
    SNAPSHOT_CHUNK_BYTES = 4 << 20, // of content in one compressed chunk
};

/* By enum snap_type; SNAP_ERROR has none. */
extern const char *const snapshot_types[];
enum { SNAPSHOT_TYPES = SNAP_OTHER + 1 };

/* Whether a variable or a parameter of this name may hold a secret. */
bool snapshot_names_secret(struct str name);

#endif
