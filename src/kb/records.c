/* The records of every area: the JSON keys of kb/schema/AREA.json and where they lie in kb.h. */
#include <assert.h>

#include "kb/internal.h"

/* Enums are stored through an int. */
static_assert(sizeof(enum kb_phase) == sizeof(int), "enums must have the size of int");

#define RECORD(type, array)                                                                        \
    {                                                                                              \
        sizeof(type), array, sizeof(array) / sizeof *(array)                                       \
    }
#define AT(type, member) .offset = offsetof(type, member)
#define TEXT(type, key, member)                                                                    \
    {                                                                                              \
        key, FIELD_TEXT, AT(type, member)                                                          \
    }
#define TEXT_OPT(type, key, member)                                                                \
    {                                                                                              \
        key, FIELD_TEXT, .optional = true, AT(type, member)                                        \
    }
#define TEXTS_AS(type, key, member, may_lack)                                                      \
    {                                                                                              \
        key, FIELD_TEXTS, .optional = may_lack, .offset = offsetof(type, member.items),            \
                          .count_offset = offsetof(type, member.n)                                 \
    }
#define TEXTS(type, key, member)     TEXTS_AS(type, key, member, false)
#define TEXTS_OPT(type, key, member) TEXTS_AS(type, key, member, true)
#define BOOL(type, key, member)                                                                    \
    {                                                                                              \
        key, FIELD_BOOL, AT(type, member)                                                          \
    }
#define BOOL_OPT(type, key, member)                                                                \
    {                                                                                              \
        key, FIELD_BOOL, .optional = true, AT(type, member)                                        \
    }
#define NUMBER_OPT(type, key, member)                                                              \
    {                                                                                              \
        key, FIELD_NUMBER, .optional = true, AT(type, member)                                      \
    }
#define NUMBER(type, key, member)                                                                  \
    {                                                                                              \
        key, FIELD_NUMBER, AT(type, member)                                                        \
    }
#define WORD(type, key, member, list)                                                              \
    {                                                                                              \
        key, FIELD_WORD, AT(type, member), .words = list                                           \
    }
#define WORD_OPT(type, key, member, list, value)                                                   \
    {                                                                                              \
        key, FIELD_WORD, .optional = true, AT(type, member), .words = list, .preset = value        \
    }
#define FLAG_OPT(type, key, member, list)                                                          \
    {                                                                                              \
        key, FIELD_FLAG, .optional = true, AT(type, member), .words = list                         \
    }
#define LIST_AS(type, key, member, what, may_lack)                                                 \
    {                                                                                              \
        key, FIELD_LIST, .optional = may_lack, AT(type, member),                                   \
                         .count_offset = offsetof(type, n_##member), .record = &what               \
    }
#define LIST(type, key, member, what)     LIST_AS(type, key, member, what, false)
#define LIST_OPT(type, key, member, what) LIST_AS(type, key, member, what, true)
#define ORIGIN(type)                                                                               \
    WORD(type, "evidence", origin.evidence, evidence_words),                                       \
        TEXTS(type, "source", origin.sources), TEXT(type, "date", origin.date),                    \
        TEXT_OPT(type, "note", origin.note)

static const char *const evidence_words[] = {"ran", "read", "documented", NULL};
static const char *const phase_words[] = {"load", "import", "use", NULL};
static const char *const version_words[] = {"none",    "cudnn",  "nvrtc", "file-name",
                                            "package", "verdef", NULL};
static const char *const mode_words[] = {"now", "lazy", NULL};
static const char *const scope_words[] = {"local", "global", NULL};
static const char *const step_words[] = {"extension", "cdll", "preload", "import", "dlopen", NULL};
static const char *const when_words[] = {"always", "after-failure", "path-loaded",
                                         "gpu",    "no-gpu",        NULL};
static const char *const missing_words[] = {"fail", "stop", "skip", "warn", NULL};
static const char *const role_words[] = {"library", "application", "part", NULL};
static const char *const manager_words[] = {"pip",    "apt",    "dnf", "conda", "driver",
                                            "pacman", "zypper", "apk", NULL};
static const char *const rule_words[] = {"same-version", "same-origin", "not-older", NULL};

/* ------------------------------------------------------------------ the records */

static const struct field request_fields[] = {
    TEXTS(struct kb_request, "names", names),
    BOOL(struct kb_request, "required", required),
    BOOL_OPT(struct kb_request, "warn", warn),
    FLAG_OPT(struct kb_request, "mode", lazy, mode_words),
    FLAG_OPT(struct kb_request, "scope", global, scope_words),
    TEXT_OPT(struct kb_request, "family", family),
    TEXT_OPT(struct kb_request, "feature", feature),
};
static const struct record request_record = RECORD(struct kb_request, request_fields);

static const struct field package_fields[] = {
    TEXT(struct kb_dlopen, "name", package),
    TEXT_OPT(struct kb_dlopen, "versions", package_versions),
};
static const struct record package_record = RECORD(struct kb_dlopen, package_fields);

static const struct field dlopen_fields[] = {
    TEXT(struct kb_dlopen, "id", id),
    TEXTS(struct kb_dlopen, "objects", objects),
    {"package", FIELD_INSIDE, .optional = true, .record = &package_record},
    TEXTS_OPT(struct kb_dlopen, "beside", beside),
    TEXT_OPT(struct kb_dlopen, "object_version", object_version),
    TEXTS_OPT(struct kb_dlopen, "not_builds", not_builds),
    WORD_OPT(struct kb_dlopen, "version_from", version_from, version_words, KB_VERSION_NONE),
    WORD(struct kb_dlopen, "phase", phase, phase_words),
    LIST(struct kb_dlopen, "opens", requests, request_record),
    TEXT(struct kb_dlopen, "says", says),
    TEXT_OPT(struct kb_dlopen, "in_program", in_program),
    ORIGIN(struct kb_dlopen),
};
static const struct record dlopen_record = RECORD(struct kb_dlopen, dlopen_fields);

static const struct field preload_fields[] = {
    TEXTS(struct kb_preload, "folders", folders),      TEXTS_OPT(struct kb_preload, "late", late),
    TEXT_OPT(struct kb_preload, "glob", glob),         TEXTS_OPT(struct kb_preload, "names", names),
    BOOL_OPT(struct kb_preload, "optional", optional),
};
static const struct record preload_record = RECORD(struct kb_preload, preload_fields);

static const struct field step_fields[] = {
    WORD(struct kb_step, "do", kind, step_words),
    WORD_OPT(struct kb_step, "phase", phase, phase_words, KB_PHASE_IMPORT),
    WORD_OPT(struct kb_step, "when", when, when_words, KB_WHEN_ALWAYS),
    WORD_OPT(struct kb_step, "missing", missing, missing_words, KB_MISSING_FAIL),
    BOOL_OPT(struct kb_step, "optional", optional),
    BOOL_OPT(struct kb_step, "retry", retry),
    FLAG_OPT(struct kb_step, "mode", lazy, mode_words),
    FLAG_OPT(struct kb_step, "scope", global, scope_words),
    TEXT_OPT(struct kb_step, "module", module),
    TEXT_OPT(struct kb_step, "file", file),
    TEXTS_OPT(struct kb_step, "fallback", fallback),
    TEXT_OPT(struct kb_step, "package", package),
    TEXT_OPT(struct kb_step, "path", path),
    TEXT_OPT(struct kb_step, "unless", unless),
    TEXT_OPT(struct kb_step, "release", release),
    TEXT_OPT(struct kb_step, "caller", caller),
    TEXT_OPT(struct kb_step, "group", group),
    TEXT_OPT(struct kb_step, "within", within),
    TEXT_OPT(struct kb_step, "feature", feature),
    TEXT_OPT(struct kb_step, "says", says),
    TEXTS_OPT(struct kb_step, "names", names),
    LIST_OPT(struct kb_step, "libs", libs, preload_record),
};
static const struct record step_record = RECORD(struct kb_step, step_fields);

static const struct field import_fields[] = {
    TEXT(struct kb_import, "id", id),
    TEXT(struct kb_import, "package", package),
    TEXT(struct kb_import, "versions", versions),
    TEXT(struct kb_import, "module", module),
    WORD_OPT(struct kb_import, "role", role, role_words, KB_ROLE_LIBRARY),
    BOOL_OPT(struct kb_import, "own_runtime", own_runtime),
    LIST(struct kb_import, "steps", steps, step_record),
    ORIGIN(struct kb_import),
};
static const struct record import_record = RECORD(struct kb_import, import_fields);

static const struct field provider_fields[] = {
    WORD(struct kb_provider, "manager", manager, manager_words),
    TEXT(struct kb_provider, "package", package),
    TEXT_OPT(struct kb_provider, "folder", folder),
    TEXT_OPT(struct kb_provider, "versions", versions),
    TEXT_OPT(struct kb_provider, "repository", repository),
    TEXTS_OPT(struct kb_provider, "systems", systems),
    TEXT_OPT(struct kb_provider, "development", development),
    TEXT_OPT(struct kb_provider, "meta", meta),
};
static const struct record provider_record = RECORD(struct kb_provider, provider_fields);

static const struct field provide_fields[] = {
    TEXT(struct kb_provide, "id", id),
    TEXT(struct kb_provide, "soname", soname),
    TEXT(struct kb_provide, "library", library),
    TEXT_OPT(struct kb_provide, "dll", dll),
    TEXT_OPT(struct kb_provide, "dll_folder", dll_folder),
    TEXT_OPT(struct kb_provide, "dll_from", dll_from),
    TEXTS_OPT(struct kb_provide, "needs", needs),
    TEXT_OPT(struct kb_provide, "family", family),
    NUMBER(struct kb_provide, "major", major),
    NUMBER(struct kb_provide, "cuda_major", cuda_major),
    LIST(struct kb_provide, "providers", providers, provider_record),
    ORIGIN(struct kb_provide),
};
static const struct record provide_record = RECORD(struct kb_provide, provide_fields);

/* Its providers are those of a library with fewer keys. */
static const struct field named_fields[] = {
    WORD(struct kb_provider, "manager", manager, manager_words),
    TEXT(struct kb_provider, "package", package),
    TEXTS_OPT(struct kb_provider, "systems", systems),
};
static const struct record named_record = RECORD(struct kb_provider, named_fields);

static const struct field named_row_fields[] = {
    TEXT(struct kb_package, "id", id),
    {"packages", FIELD_LIST, AT(struct kb_package, providers),
     .count_offset = offsetof(struct kb_package, n_providers), .record = &named_record},
    ORIGIN(struct kb_package),
};
static const struct record named_row_record = RECORD(struct kb_package, named_row_fields);

static const struct field family_fields[] = {
    TEXT(struct kb_family, "id", id),
    TEXT(struct kb_family, "title", title),
    TEXTS(struct kb_family, "members", members),
    WORD(struct kb_family, "rule", rule, rule_words),
    TEXTS_OPT(struct kb_family, "required", required),
    TEXTS_OPT(struct kb_family, "optional", optional),
    WORD(struct kb_family, "version_from", version_from, version_words),
    TEXTS_OPT(struct kb_family, "recipe", recipe),
    ORIGIN(struct kb_family),
};
static const struct record family_record = RECORD(struct kb_family, family_fields);

static const struct field need_fields[] = {
    TEXT(struct kb_need, "package", package),
    TEXT_OPT(struct kb_need, "versions", versions),
    TEXT_OPT(struct kb_need, "fails", fails),
    BOOL_OPT(struct kb_need, "at_import", at_import),
};
static const struct record need_record = RECORD(struct kb_need, need_fields);

static const struct field compat_fields[] = {
    TEXT(struct kb_compat, "id", id),
    TEXT(struct kb_compat, "package", package),
    TEXT(struct kb_compat, "versions", versions),
    NUMBER(struct kb_compat, "cuda_major", cuda_major),
    TEXT_OPT(struct kb_compat, "cudnn", cudnn),
    LIST(struct kb_compat, "needs", needs, need_record),
    ORIGIN(struct kb_compat),
};
static const struct record compat_record = RECORD(struct kb_compat, compat_fields);

/* ------------------------------------------------------------------ what goes with what */

static const char *const driver_words[] = {"toolkit",      "minor-version", "branch", "last-branch",
                                           "first-branch", "driver-alone",  NULL};
static const char *const gpu_words[] = {"card", "chip", "module", NULL};
static const char *const vendor_words[] = {"nvidia", "amd", NULL};
static const char *const status_words[] = {"stable", "experimental", NULL};
static const char *const api_words[] = {"cuda-runtime", "cuda-driver", "cudnn", "cublas", "nvrtc",
                                        "nvml",         "hip",         "hsa",   "hiprtc", "hipblas",
                                        "miopen",       "nccl",        "xid",   NULL};
static const char *const rocm_words[] = {"release", "target", "override", "part-dropped", NULL};
static const char *const verdict_words[] = {"none", "same-isa", "unsafe", NULL};
static const char *const model_words[] = {"model",   "measured",      "alias", "compute-type",
                                          "default", "compute-since", NULL};

static const struct field driver_fields[] = {
    TEXT(struct kb_driver, "id", id),           WORD(struct kb_driver, "kind", kind, driver_words),
    TEXT_OPT(struct kb_driver, "cuda", cuda),   TEXT(struct kb_driver, "title", title),
    TEXT(struct kb_driver, "linux", linux_min), TEXT_OPT(struct kb_driver, "windows", windows_min),
    TEXT_OPT(struct kb_driver, "ends", ends),   TEXT_OPT(struct kb_driver, "ptx", ptx),
    TEXTS_OPT(struct kb_driver, "sm", sm),      ORIGIN(struct kb_driver),
};
static const struct record driver_record = RECORD(struct kb_driver, driver_fields);

static const struct field repository_fields[] = {
    TEXT(struct kb_repository, "id", id),
    TEXT(struct kb_repository, "vendor", vendor),
    TEXTS(struct kb_repository, "systems", systems),
    TEXT(struct kb_repository, "version", version),
    WORD(struct kb_repository, "manager", manager, manager_words),
    TEXT(struct kb_repository, "address", address),
    TEXTS(struct kb_repository, "releases", releases),
    ORIGIN(struct kb_repository),
};
static const struct record repository_record = RECORD(struct kb_repository, repository_fields);

static const struct field size_fields[] = {
    TEXT(struct kb_size, "id", id),
    TEXT(struct kb_size, "package", package),
    TEXTS(struct kb_size, "wheels", wheels),
    TEXTS_OPT(struct kb_size, "totals", totals),
    ORIGIN(struct kb_size),
};
static const struct record size_record = RECORD(struct kb_size, size_fields);

static const struct field toolkit_fields[] = {
    TEXT(struct kb_toolkit, "id", id),   TEXT(struct kb_toolkit, "cuda", cuda),
    TEXT(struct kb_toolkit, "ptx", ptx), TEXTS(struct kb_toolkit, "sm", sm),
    ORIGIN(struct kb_toolkit),
};
static const struct record toolkit_record = RECORD(struct kb_toolkit, toolkit_fields);

static const struct field gpu_fields[] = {
    TEXT(struct kb_gpu, "id", id),
    WORD(struct kb_gpu, "kind", kind, gpu_words),
    WORD(struct kb_gpu, "vendor", vendor, vendor_words),
    TEXT(struct kb_gpu, "name", name),
    TEXTS_OPT(struct kb_gpu, "chips", chips),
    TEXT(struct kb_gpu, "generation", generation),
    TEXTS_OPT(struct kb_gpu, "pci", pci),
    TEXT_OPT(struct kb_gpu, "capability", capability),
    TEXT_OPT(struct kb_gpu, "gfx", gfx),
    NUMBER_OPT(struct kb_gpu, "memory_gib", memory_gib),
    ORIGIN(struct kb_gpu),
};
static const struct record gpu_record = RECORD(struct kb_gpu, gpu_fields);

static const struct field cudnn_fields[] = {
    TEXT(struct kb_cudnn, "id", id),
    TEXT(struct kb_cudnn, "cudnn", cudnn),
    NUMBER(struct kb_cudnn, "cuda_major", cuda_major),
    TEXTS(struct kb_cudnn, "cuda", cuda),
    TEXT_OPT(struct kb_cudnn, "linux", linux_min),
    TEXT_OPT(struct kb_cudnn, "windows", windows_min),
    TEXTS(struct kb_cudnn, "sm", sm),
    ORIGIN(struct kb_cudnn),
};
static const struct record cudnn_record = RECORD(struct kb_cudnn, cudnn_fields);

static const struct field release_need_fields[] = {
    TEXT(struct kb_release_need, "package", package),
    TEXT_OPT(struct kb_release_need, "versions", versions),
    TEXT_OPT(struct kb_release_need, "extra", extra),
    TEXT_OPT(struct kb_release_need, "when", when),
};
static const struct record release_need_record =
    RECORD(struct kb_release_need, release_need_fields);

static const struct field release_fields[] = {
    TEXT(struct kb_release, "id", id),
    TEXT(struct kb_release, "package", package),
    TEXT(struct kb_release, "version", version),
    TEXT_OPT(struct kb_release, "python", python),
    TEXTS(struct kb_release, "pythons", pythons),
    TEXT_OPT(struct kb_release, "glibc", glibc),
    TEXT_OPT(struct kb_release, "cuda", cuda),
    TEXT_OPT(struct kb_release, "cudnn", cudnn),
    TEXT_OPT(struct kb_release, "numpy", numpy),
    TEXT_OPT(struct kb_release, "numpy_abi", numpy_abi),
    TEXTS_OPT(struct kb_release, "platforms", platforms),
    TEXTS_OPT(struct kb_release, "compiled_needs", compiled_needs),
    LIST(struct kb_release, "needs", needs, release_need_record),
    ORIGIN(struct kb_release),
};
static const struct record release_record = RECORD(struct kb_release, release_fields);

static const struct field build_fields[] = {
    TEXT(struct kb_build, "id", id),
    TEXT(struct kb_build, "package", package),
    TEXT(struct kb_build, "versions", versions),
    TEXT(struct kb_build, "build", build),
    TEXT_OPT(struct kb_build, "cuda", cuda),
    TEXT_OPT(struct kb_build, "cudnn", cudnn),
    TEXT_OPT(struct kb_build, "rocm", rocm),
    TEXT_OPT(struct kb_build, "python", python),
    TEXT_OPT(struct kb_build, "glibc", glibc),
    TEXTS_OPT(struct kb_build, "index_platforms", index_platforms),
    TEXTS_OPT(struct kb_build, "platforms", platforms),
    WORD(struct kb_build, "status", status, status_words),
    BOOL(struct kb_build, "default", is_default),
    BOOL_OPT(struct kb_build, "any_minor", any_minor),
    TEXTS_OPT(struct kb_build, "sm", sm),
    TEXTS_OPT(struct kb_build, "ptx", ptx),
    TEXT_OPT(struct kb_build, "ptx_isa", ptx_isa),
    TEXTS_OPT(struct kb_build, "gfx", gfx),
    ORIGIN(struct kb_build),
};
static const struct record build_record = RECORD(struct kb_build, build_fields);

static const struct field error_fields[] = {
    TEXT(struct kb_error, "id", id),
    WORD(struct kb_error, "api", api, api_words),
    NUMBER(struct kb_error, "code", code),
    TEXT(struct kb_error, "name", name),
    TEXT_OPT(struct kb_error, "versions", versions),
    TEXT_OPT(struct kb_error, "meaning", meaning),
    ORIGIN(struct kb_error),
};
static const struct record error_record = RECORD(struct kb_error, error_fields);

static const struct field rocm_fields[] = {
    TEXT(struct kb_rocm, "id", id),
    WORD(struct kb_rocm, "kind", kind, rocm_words),
    TEXT_OPT(struct kb_rocm, "rocm", rocm),
    TEXTS(struct kb_rocm, "gfx", gfx),
    BOOL_OPT(struct kb_rocm, "apu", apu),
    TEXT_OPT(struct kb_rocm, "part", part),
    TEXT_OPT(struct kb_rocm, "part_version", part_version),
    NUMBER_OPT(struct kb_rocm, "kfd", kfd),
    TEXT_OPT(struct kb_rocm, "generation", generation),
    TEXT_OPT(struct kb_rocm, "products", products),
    TEXT_OPT(struct kb_rocm, "override", override),
    WORD_OPT(struct kb_rocm, "verdict", verdict, verdict_words, KB_VERDICT_NONE),
    ORIGIN(struct kb_rocm),
};
static const struct record rocm_record = RECORD(struct kb_rocm, rocm_fields);

static const struct field compute_fields[] = {
    TEXT(struct kb_compute, "asked", asked),
    TEXT(struct kb_compute, "runs_as", runs_as),
};
static const struct record compute_record = RECORD(struct kb_compute, compute_fields);

static const struct field model_fields[] = {
    TEXT(struct kb_model, "id", id),
    WORD(struct kb_model, "kind", kind, model_words),
    TEXT(struct kb_model, "engine", engine),
    TEXT_OPT(struct kb_model, "model", model),
    TEXT_OPT(struct kb_model, "alias", alias),
    TEXT_OPT(struct kb_model, "device", device),
    TEXT_OPT(struct kb_model, "applies", applies),
    TEXT_OPT(struct kb_model, "compute", compute),
    NUMBER_OPT(struct kb_model, "parameters_m", parameters_m),
    NUMBER_OPT(struct kb_model, "memory_mib", memory_mib),
    NUMBER_OPT(struct kb_model, "batch", batch),
    LIST_OPT(struct kb_model, "runs", runs, compute_record),
    ORIGIN(struct kb_model),
};
static const struct record model_record = RECORD(struct kb_model, model_fields);

static const struct field glibc_fields[] = {
    TEXT(struct kb_glibc, "id", id),
    TEXT_OPT(struct kb_glibc, "tag", tag),
    TEXT(struct kb_glibc, "glibc", glibc),
    TEXT_OPT(struct kb_glibc, "pip", pip),
    TEXT_OPT(struct kb_glibc, "image", image),
    TEXT_OPT(struct kb_glibc, "systems", systems),
    ORIGIN(struct kb_glibc),
};
static const struct record glibc_record = RECORD(struct kb_glibc, glibc_fields);

static const char *const trait_words[] = {"program", "variable", "feature", "cpu",      "refusal",
                                          "opens",   "index",    "package", "encoding", "ends",
                                          "choices", "needs",    NULL};

static const struct field trait_fields[] = {
    TEXT(struct kb_trait, "id", id),
    WORD(struct kb_trait, "kind", kind, trait_words),
    TEXT(struct kb_trait, "package", package),
    TEXT_OPT(struct kb_trait, "versions", versions),
    TEXT(struct kb_trait, "name", name),
    TEXT_OPT(struct kb_trait, "compute", compute),
    BOOL_OPT(struct kb_trait, "has", has),
    TEXT(struct kb_trait, "says", says),
    ORIGIN(struct kb_trait),
};
static const struct record trait_record = RECORD(struct kb_trait, trait_fields);

static const struct field engine_fields[] = {
    TEXT(struct kb_engine, "id", id),
    TEXT(struct kb_engine, "engine", engine),
    TEXT(struct kb_engine, "from", from),
    TEXT(struct kb_engine, "cdi", cdi),
    TEXT(struct kb_engine, "library", library),
    TEXT_OPT(struct kb_engine, "to", to),
    ORIGIN(struct kb_engine),
};
static const struct record engine_record = RECORD(struct kb_engine, engine_fields);

/* ------------------------------------------------------------------ checks across fields */

static int import_check(const void *row, struct gm_err *err)
{
    const struct kb_import *import = row;
    for (size_t i = 0; i < import->n_steps; i++) {
        const struct kb_step *s = &import->steps[i];
        const struct {
            bool there;
            const char *key;
        } must[] = {
            [KB_STEP_EXTENSION] = {s->module != NULL, "module"},
            [KB_STEP_CDLL] = {s->file != NULL, "file"},
            [KB_STEP_PRELOAD] = {s->n_libs > 0, "libs"},
            [KB_STEP_IMPORT] = {s->package != NULL, "package"},
            [KB_STEP_DLOPEN] = {s->names.n > 0 && s->caller, "names and caller"},
        };
        if (!must[s->kind].there) {
            return gm_err_set(err, GM_ERR_FORMAT, "step %zu: \"%s\" needs %s", i + 1,
                              step_words[s->kind], must[s->kind].key);
        }
        if ((s->when == KB_WHEN_PATH_LOADED) != (s->path != NULL)) {
            return gm_err_set(err, GM_ERR_FORMAT,
                              "step %zu: \"path\" goes with \"path-loaded\" and nothing else",
                              i + 1);
        }
        for (size_t k = 0; k < s->n_libs; k++) {
            if ((s->libs[k].glob != NULL) == (s->libs[k].names.n > 0)) {
                return gm_err_set(err, GM_ERR_FORMAT,
                                  "step %zu: a library has either \"glob\" or \"names\"", i + 1);
            }
        }
    }
    return 0;
}

static int gpu_check(const void *row, struct gm_err *err)
{
    const struct kb_gpu *gpu = row;
    if ((gpu->vendor == KB_VENDOR_NVIDIA) != (gpu->capability != NULL) ||
        (gpu->vendor == KB_VENDOR_AMD) != (gpu->gfx != NULL)) {
        return gm_err_set(err, GM_ERR_FORMAT, "NVIDIA has a capability, AMD a gfx target");
    }
    return 0;
}

const struct area kb_areas[KB_AREAS] = {
    [KB_AREA_BUILDS] = {"builds", &build_record, NULL},
    [KB_AREA_COMPATS] = {"compat", &compat_record, NULL},
    [KB_AREA_CUDNNS] = {"cudnn", &cudnn_record, NULL},
    [KB_AREA_DLOPENS] = {"dlopen", &dlopen_record, NULL},
    [KB_AREA_DRIVERS] = {"drivers", &driver_record, NULL},
    [KB_AREA_ERRORS] = {"errors", &error_record, NULL},
    [KB_AREA_FAMILIES] = {"families", &family_record, NULL},
    [KB_AREA_ENGINES] = {"engines", &engine_record, NULL},
    [KB_AREA_GLIBCS] = {"glibc", &glibc_record, NULL},
    [KB_AREA_GPUS] = {"gpus", &gpu_record, gpu_check},
    [KB_AREA_IMPORTS] = {"imports", &import_record, import_check},
    [KB_AREA_MODELS] = {"models", &model_record, NULL},
    [KB_AREA_PACKAGES] = {"packages", &named_row_record, NULL},
    [KB_AREA_PROVIDES] = {"provides", &provide_record, NULL},
    [KB_AREA_RELEASES] = {"releases", &release_record, NULL},
    [KB_AREA_REPOSITORYS] = {"repositories", &repository_record, NULL},
    [KB_AREA_ROCMS] = {"rocm", &rocm_record, NULL},
    [KB_AREA_SIZES] = {"sizes", &size_record, NULL},
    [KB_AREA_TOOLKITS] = {"toolkits", &toolkit_record, NULL},
    [KB_AREA_TRAITS] = {"traits", &trait_record, NULL},
};
