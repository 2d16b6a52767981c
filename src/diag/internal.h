/* Shared by the rule files; not for other rooms. */
#ifndef GPUMEND_DIAG_INTERNAL_H
#define GPUMEND_DIAG_INTERNAL_H

#include "diag/finding.h"
#include "py/dist.h"
#include "py/requirement.h"

/* One thing that went wrong in one process: a request nobody could serve, or a defect of the set
 * that was chosen. */
struct diag_failure {
    const struct model_process *process;
    const struct model_attempt *attempt; // NULL: the start itself
    const struct ldso_request *request;  // the request that failed, or NULL
    const struct ldso_defect *defect;    // the defect, or NULL
    const char *name;                    // library in question, as a soname with one version number
    const char *says;                    // the words the user sees
    bool wish;                           // recommended only: worth a warning
};

/* A library that is not found, whose repairs wait until all of its likes are known. */
struct diag_pending {
    struct diag_finding *finding;
    struct diag_failure failure;
    const struct model_library *elsewhere; // or NULL
};

struct diag {
    struct model *m;
    struct arena *a;
    struct diag_report *report;
    VEC(struct diag_pending) pending;
    bool unsure; // something that decides could not be seen: no verdict of "ok"
};

/* ---- findings (finding.c) */

/* A finding with what tells it from others of its cause. */
struct diag_keyed {
    struct diag_finding finding; // first member: the report points at it
    const char *key;
    size_t order; // of discovery
};

/* A finding with this cause and culprit, new or merged with an earlier one of the same `key`. */
struct diag_finding *diag_add(struct diag *d, enum diag_cause cause, const char *key,
                              const char *culprit, const char *summary);
/* The finding of this cause that names the library as culprit or likewise, or NULL. */
struct diag_finding *diag_find(struct diag *d, enum diag_cause cause, const char *library);
/* Whether a finding of any cause names the library. */
bool diag_knows(const struct diag *d, const char *library);
void diag_evidence(struct diag *d, struct diag_finding *f, const char *fmt, ...)
    __attribute__((format(GM_PRINTF, 3, 4)));
void diag_repair(struct diag *d, struct diag_finding *f, enum diag_repair_kind kind,
                 const char *command, const char *fmt, ...)
    __attribute__((format(GM_PRINTF, 5, 6)));
void diag_seen_in(struct diag *d, struct diag_finding *f, const struct model_process *p);
void diag_likewise(struct diag *d, struct diag_finding *f, const char *name);
/* Notes which distribution is stopped by it. */
void diag_stops(struct diag *d, struct diag_finding *f, const struct diag_failure *x);
const char *diag_script_text(struct diag *d, const struct model_process *p);
/* "import a, import b" */
const char *diag_imports_text(struct diag *d, const struct model_process *p);

/* All rules, for a model whose processor is known, or for one that has no folders of its own. */
void diag_judge(struct model *m, struct diag_report *ret);
/* Where the processor is not known: what is said with every one (processors.c). */
void diag_judge_processors(struct diag *d);

/* ---- what failed (failures.c) */

/* Collects what failed in a process; optional attempts and guesses are left out, wishes too. */
size_t diag_failures(struct diag *d, const struct model_process *p, struct diag_failure **ret);

/* What failed and is worth a warning only. */
size_t diag_wishes(struct diag *d, const struct model_process *p, struct diag_failure **ret);

/* Whether a library comes with the driver: that none is installed is a fact about the machine. */
bool diag_is_driver_library(struct diag *d, const char *name);

/* The same, of those that a container is given by NVIDIA_DRIVER_CAPABILITIES (injected.c). */
bool diag_is_driver_part(const char *name);

/* A library with GPU code (own_code.c). */
struct diag_library {
    const char *name;    // glob on the file name
    const char *package; // whose GPU use ends without it; NULL: a library of the vendor
    const char *what;    // what does not work
    enum diag_severity severity;
};
/* Those of frameworks for CUDA. */
const struct diag_library *diag_frameworks(size_t *ret_n);

/* What the image asks of the host's driver, and that has not (require.c). */
void diag_image_requires(struct diag *d);

/* What is on the machine, as far as it is certain (vendor.c). */
struct diag_machine {
    const struct host_gpu *nvidia, *amd, *intel; // that programs can use, or NULL
    bool no_nvidia, no_amd;                      // the bus was read, and there is none
};
struct diag_machine diag_machine_of(const struct diag *d);
/* The bus was read, and there is none of the vendor. */
bool diag_gpu_is_absent(const struct host *h, enum host_vendor vendor);

/* Whether only a use of the GPU that its object was built for makes the request, while the machine
 * has a GPU of the other vendor and none of this one: what is wrong then is the build (vendor.c).
 */
bool diag_is_for_absent_gpu(struct diag *d, const struct diag_failure *x);
/* A library of such a build needs what is not installed: to install it would be no repair. True:
 * the finding is made, an error where not even the import works (builds.c). */
bool diag_rule_other_vendor(struct diag *d, const struct diag_failure *x);

/* The search ended at a library of the driver: the next of the same DT_NEEDED that is not where the
 * loader looks, as the request that would have come; NULL if there is none (missing.c). */
const struct ldso_request *diag_next_missing(struct diag *d, const struct diag_failure *x);

/* Path of the object that asks, and how a sentence names it:
 * "ctranslate2 (libctranslate2.so.4)". */
const char *diag_caller(const struct diag_failure *x);
const char *diag_asker(struct diag *d, const struct diag_failure *x);
/* "LD_LIBRARY_PATH", "the RPATH of libfoo.so", "ld.so.cache", ... */
const char *diag_via(struct diag *d, enum ldso_via via, const struct ldso_object *via_object);
/* Who asks, the loader's words, the program's words, and how gpumend knows of the request. */
void diag_failure_evidence(struct diag *d, struct diag_finding *f, const struct diag_failure *x);
/* How gpumend knows of a request that no DT_NEEDED states, and what it is for. */
void diag_source_evidence(struct diag *d, struct diag_finding *f, const struct model_attempt *at);
/* Whether the search for the request passed this folder. */
bool diag_searched(struct diag *d, const struct ldso_request *r, const char *dir);

/* ---- other start environments, tried in the model (replay.c) */

/* A variable of the start environment, or NULL. */
const char *diag_getenv(const struct diag *d, const char *name);
/* The process with another LD_LIBRARY_PATH ("": unset); NULL if it cannot be tried. */
const struct model_process *diag_replay(struct diag *d, const struct model_process *p,
                                        const char *library_path);
/* LD_LIBRARY_PATH without one folder; "" if nothing is left. */
const char *diag_path_without(struct diag *d, const char *dir);
/* "export LD_LIBRARY_PATH=..." or "unset LD_LIBRARY_PATH", as a shell takes it. */
const char *diag_path_command(struct diag *d, const char *library_path);
/* The same with what is in the variable already kept behind it. */
const char *diag_prepend_command(struct diag *d, const char *folders);
/* What installs libraries, and then makes their folders findable: by the start-up hook, made again,
 * where there is one. */
const char *diag_findable_command(struct diag *d, const char *install, const char *folders);
/* A text as one word of a shell. */
const char *diag_quote(struct diag *d, const char *text);
/* Offers to take `dir` off LD_LIBRARY_PATH if the process is then in order. */
bool diag_repair_without(struct diag *d, struct diag_finding *f, const struct model_process *p,
                         const char *dir);

/* ---- packages (install.c) */

/* A build for larger pages, or a kernel with smaller ones. */
void diag_repair_page_size(struct diag *d, struct diag_finding *f, const char *path);

/* Whether the machine is a Jetson board whose CUDA libraries are JetPack's own (jetson.c). */
bool diag_is_jetson(const struct diag *d);

/* Whether a library comes with CUDA, and not with the driver; NULL is none. */
bool diag_is_of_nvidia(const struct kb_provide *row);

/* Whether the file is CUDA's for Arm servers on a Jetson, or the other way round (arm.c). */
bool diag_is_for_other_arm(struct diag *d, const char *path);

/* The repair of a missing library that is part of Jetson Linux (libnvrm_gpu.so); false: it is none.
 */
bool diag_repair_of_l4t(struct diag *d, struct diag_finding *f, const char *name, bool image);

/* There the repair of a missing library of NVIDIA's, which `asking` needs; false: it is none, or no
 * such board. */
bool diag_repair_of_jetpack(struct diag *d, struct diag_finding *f, const struct kb_provide *row,
                            const char *name, const char *asking);

/* Install the owner of this file again; without an owner, replace it by hand. */
void diag_repair_reinstall(struct diag *d, struct diag_finding *f, const char *path);
/* Adds to the repairs from `first` on what makes the file findable, where the asker of a failure
 * does not look in its folder: a repair that leads to the next finding does not end. */
void diag_repair_findable(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                          const char *path, size_t first);
/* Install what brings the libraries, and say which folders must be made findable. */
void diag_repair_install(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                         const char *beside);
/* What people call a library ("FFmpeg"), or NULL. */
const char *diag_library_title(struct diag *d, const char *name);
/* Where the printed commands make an environment over a Python that pip must leave alone. */
#define DIAG_NEW_VENV "./.venv"
/* Whether the interpreter belongs to the distribution, so that pip refuses to install (PEP 668). */
bool diag_is_managed(struct model *m);
/* Whether the files are those of a container or of its image. */
bool diag_is_image(struct model *m);
/* "PYTHON -m pip install ARGUMENTS", or uv's words where there is no pip. */
const char *diag_pip(struct diag *d, const char *arguments);
/* A command that installs this release of torch in this build: "cu118". */
const char *diag_torch_command(struct diag *d, const char *release, const char *build);
bool diag_is_torch_family(const char *name); // torch, torchvision, torchaudio
/* The others that are installed, for this release of torch: " torchvision 'torchaudio==2.8.*'". */
const char *diag_torch_others(struct diag *d, const char *release);
/* Into the environment alone, also where a tool keeps it by a lock: after something was removed
 * there. */
const char *diag_pip_here(struct diag *d, const char *arguments);
/* The same for "pip uninstall". */
const char *diag_pip_remove(struct diag *d, const char *packages);

/* ---- packages named by their CUDA (other_cuda.c) */

/* Whether nothing in the process asks for the object, which Python has opened by its path, while
 * the same library of another major version is there as well: JAX opens those of CUDA 12 and 13
 * alike where both are installed, and its plug-in uses its own. */
bool diag_is_idle_twin(struct diag *d, const struct model_process *p, const struct ldso_object *o);

/* Adds the repair that puts packages for an older CUDA in the place of those that use `cuda` here;
 * `why`: what is told of it ("has code for this GPU"). False: there are none, or that CUDA serves
 * no better. */
bool diag_repair_other_cuda(struct diag *d, struct diag_finding *f, unsigned cuda, const char *why);

/* ---- other releases (release.c) */

/* "2.28" -> 28; -1 for anything else. */
int diag_glibc_minor(const char *text);
/* The newest known release in a version set (NULL: any) with a wheel for this Python whose tag
 * promises this glibc (0: not known, fits all). NULL if there is none. The target is an
 * environment. */
const struct kb_release *diag_release_for(struct diag *d, const char *package, const char *versions,
                                          int glibc_minor);
/* The same of torch for this CUDA ("13.0"), of those that this torchaudio goes with. */
const struct kb_release *diag_torch_for(struct diag *d, const char *cuda, const char *torchaudio);
/* The minor version of the target's glibc; 0: not known. */
int diag_glibc_here(const struct diag *d);
/* False if the knowledge base lists releases of the set and none has a wheel for this Python and
 * glibc. */
bool diag_can_install(struct diag *d, const char *package, const char *versions);
/* ---- and what comes with them (coming.c) */

/* Installs a release, and what that release opens and does not ask an installer for, where neither
 * the environment nor the system has it; and names the folders in which nobody would look for that.
 * `options` of pip: "", or words with a blank behind. */
const char *diag_release_command(struct diag *d, bool here, const char *options,
                                 const char *package, const char *versions);

/* Where pip would put the library that failed, if this user may not look there; or NULL. */
const char *diag_denied_place(struct diag *d, const struct diag_failure *x);

/* Fills in at_once of the findings that others are behind (repair.c). */
void diag_join_foreseen(struct diag *d);

/* The name of the library, where a package asks by path for a file of another wheel; or NULL. */
const char *diag_library_of_wheel(struct diag *d, const struct diag_failure *x);

/* Repairs for a library that is not found (repair.c). */
void diag_repair_missing(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                         const struct model_library *elsewhere);

/* ---- what packages declare (requirements.c) */

/* The row of what importing this distribution loads, or NULL. */
const struct kb_import *diag_import_row(struct diag *d, const struct py_dist *dist);
/* The installed package that declares a requirement of this name which the version does not meet;
 * NULL: there is none. *ret_specifiers: what it declares. */
const struct py_dist *diag_pinned_by(struct diag *d, const char *name, const char *version,
                                     const char **ret_specifiers);
/* Whom another release would leave with a requirement that is not met, as a clause; "": nobody. */
const char *diag_pinned_text(struct diag *d, const char *package, const char *release);
/* The known GPU package that declares a requirement of this name, or NULL. */
const struct py_dist *diag_required_by(struct diag *d, const char *name);
/* The i-th requirement of a distribution, if it holds in this environment. */
bool diag_requirement_at(struct diag *d, const struct py_metadata *meta, size_t i,
                         const struct py_marker_env *markers, struct py_requirement *ret);
/* NULL: it is not installed, or has none that can be read. */
const struct py_metadata *diag_metadata_of(struct diag *d, const char *package);
/* ">=2,<3". */
const char *diag_specifiers_text(struct diag *d, const struct py_requirement *q);
/* The requirement of that name that holds here ("==9.1.0.70" of nvidia-cudnn-cu12); false if the
 * package declares none. `pattern` is a glob on normalised names. */
bool diag_requirement(struct diag *d, const char *package, const char *pattern,
                      const char **ret_name, const char **ret_specifiers);
/* The module of a distribution: kb/ knows those that are called otherwise. */
const char *diag_module_of(struct diag *d, const char *package);
/* Whether a package is installed, or its module is there under another name. */
bool diag_package_is_there(struct diag *d, const char *package);
/* A requirement that a package declares and that is not met. */
struct diag_unmet {
    const char *name;     // normalised
    const char *declared; // as pip takes it: "cuda-toolkit[cublas]==13.2.2"
    const char *why;      // "not installed", "2.4.6 is installed"
    bool absent;          // it is not there, or one of its extras is not; not another version
};
typedef VEC(struct diag_unmet) diag_unmet_list;
diag_unmet_list diag_unmet(struct diag *d, const char *package);
/* A release of the package for an older glibc; says what this one asks for (builtwith.c). */
bool diag_repair_glibc(struct diag *d, struct diag_finding *f, const struct diag_failure *x);

/* False where it is known what the program imports, and this is not among it: what is wrong with
 * the distribution is not met then. */
bool diag_may_be_imported(const struct diag *d, const struct py_dist *dist);

/* Notes the processes that import the distribution of that name. */
void diag_seen_where_imported(struct diag *d, struct diag_finding *f, const char *dist);

/* ---- the machine (machine.c) */

/* Whether a GPU of the vendor is listed, whatever it is used for. */
bool diag_has_gpu_of(const struct host *h, enum host_vendor vendor);

/* The next GPU of this vendor that programs may be able to use, in the order of the host; NULL
 * behind the last. AMD's integrated ones are left out: hardly any build is meant for them. */
const struct host_gpu *diag_next_gpu(const struct diag *d, enum host_vendor vendor,
                                     const struct host_gpu *after);
/* False if the compute capability is not known. */
bool diag_capability(const struct host_gpu *g, unsigned *ret_major, unsigned *ret_minor);
/* A variable of the start environment; of a captured tree also that of whoever captured it. */
const char *diag_variable(const struct diag *d, const char *name);
/* Whose libcuda a program of an image loads in a container with the host's, when the model has it
 * load this one of the image (precedence.c). *ret: the specification that decides. */
enum diag_whose {
    DIAG_WHOSE_NOT_ASKED, // no image, or no specification on its host
    DIAG_WHOSE_IMAGE,
    DIAG_WHOSE_HOST,
    DIAG_WHOSE_UNKNOWN,
};
enum diag_whose diag_whose_libcuda(struct diag *d, const struct ldso_object *o,
                                   const struct host_injection **ret);
/* Says in a finding why the image's comes first, and what to do on the host. */
void diag_say_precedence(struct diag *d, struct diag_finding *f, const struct ldso_object *o,
                         const struct host_injection *in);

/* The version of NVIDIA's kernel module, or NULL. */
const char *diag_driver(const struct diag *d);
/* The driver as the process meets it: its version, or that of a forward-compatibility library which
 * may be used here; NULL where it cannot be determined. */
const char *diag_driver_of(struct diag *d, const struct model_process *p);
/* The newest PTX ISA that a driver is sure to know and no newer one, ten times its version; 0 if
 * that cannot be determined, or if the driver is NULL. */
unsigned diag_ptx_isa(struct diag *d, const char *driver);

/* That of the driver that serves the process: its release says so, or that of Jetson Linux. */
unsigned diag_ptx_isa_of(struct diag *d, const struct model_process *p);

struct diag_target {
    unsigned number; // NVIDIA: ten times the compute capability
    const char *gfx; // AMD, else NULL
};

/* The newest build of a package with code for all targets that this Python and driver can take;
 * of this version (NULL: any), from pip's own index or from elsewhere. NULL if none is known. */
const struct kb_build *diag_build_for(struct diag *d, const char *package, const char *version,
                                      bool is_default, const struct diag_target *targets, size_t n);
/* The same with code for all of NVIDIA's GPUs here whose compute capability is known. */
const struct kb_build *diag_build_here(struct diag *d, const char *package, const char *version,
                                       bool is_default);
/* Whether the knowledge base says for which CUDA the package index has this release. */
bool diag_build_is_known(struct diag *d, const char *package, const char *version);
/* "2.8" of ">=2.8,<2.9". */
const char *diag_series(struct diag *d, const struct kb_build *b);
/* Offers builds with code for all targets; false if none is known. */
bool diag_repair_build(struct diag *d, struct diag_finding *f, const char *package,
                       const struct diag_target *targets, size_t n);

/* ---- orders of imports and uses (order.c) */

/* The first process of a group, NULL if there is none; whether none of the group's has a failure:
 * what holds for these imports holds for each. */
const struct model_process *diag_first_of(struct diag *d, size_t group);
bool diag_group_works(struct diag *d, size_t group, const struct diag_failure *x);
/* The same imports, used in another order, without this failure; NULL if there is none. */
const struct model_process *diag_works_used_otherwise(struct diag *d, const struct diag_failure *x);
/* A finding that needs a use between two imports says so. Called when findings are merged. */
void diag_say_mixed(struct diag *d);
/* Where Python's imports wait (PEP 810), a finding of a package says when the program meets it. */
void diag_say_lazy(struct diag *d);

/* ---- rules. Each of the first group is told of one failure and says whether it was its case. */
bool diag_rule_order(struct diag *d, const struct diag_failure *x);
bool diag_rule_bad_file(struct diag *d, const struct diag_failure *x);
bool diag_rule_defect(struct diag *d, const struct diag_failure *x);
bool diag_rule_not_found(struct diag *d, const struct diag_failure *x);

/* A copy with the right name, where the loader does not look: true, and the finding is made, if
 * something is wrong with that file itself (files.c). */
bool diag_bad_copy(struct diag *d, const struct diag_failure *x, const struct model_library *copy);
/* The same where this user may not look. */
bool diag_denied_copy(struct diag *d, const struct diag_failure *x);

/* A file that failed, named by its path, which its package records and which is not there. */
bool diag_incomplete(struct diag *d, const struct diag_failure *x);
/* A library of a package that was asked for by nobody and could not be used: a warning (files.c).
 */
void diag_damaged_library(struct diag *d, const char *path);

/* These look at the whole model. */
void diag_rule_journal(struct diag *d); // halves.c
void diag_rule_halves(struct diag *d);  // halves.c: after the failures
void diag_rule_start(struct diag *d);
void diag_rule_failures(struct diag *d);
void diag_rule_families(struct diag *d);
void diag_rule_stub(struct diag *d);
void diag_rule_relative(struct diag *d);
void diag_rule_extension(struct diag *d);
void diag_rule_environment(struct diag *d);
void diag_rule_live(struct diag *d);
void diag_rule_driverless(struct diag *d);
/* Once alike findings are one: their repairs are judged together (ends.c). */
void diag_judge_ends(struct diag *d);
/* The request for a library of NVIDIA's driver for want of which a start or an import fails on
 * every device, or NULL. *ret_attempt: the import; NULL: the start (driverless.c). */
const struct ldso_request *diag_driver_at_import(struct diag *d, const struct model_process *p,
                                                 const struct model_attempt **ret_attempt);
/* The same, on a system that is known to have no GPU of NVIDIA. */
bool diag_is_driverless(struct diag *d, const struct model_process *p);
void diag_rule_devices(struct diag *d);
void diag_rule_drivers(struct diag *d);

/* Whether the target has a program that would use a GPU of this vendor; the first such package or
 * file in *ret_who. A machine without a target: true, and *ret_who NULL. (devices.c) */
bool diag_wants(struct diag *d, enum host_vendor vendor, const char **ret_who);

/* Where the file is of a package that was installed over another one, which a known package
 * requires: that is said, with the repair, and true (overwritten.c). */
bool diag_repair_overwritten(struct diag *d, struct diag_finding *f, const char *path);

/* The libcuda of a process; NULL: none is loaded. */
const struct ldso_object *diag_libcuda_of(const struct model_process *p);

/* A forward-compatibility libcuda. */
struct diag_compat {
    const char *path;    // real path of a forward-compatibility libcuda
    const char *version; // or NULL
    struct host_compat note;
};

/* Whether the object is one. */
bool diag_compat_of(struct diag *d, const struct ldso_object *o, struct diag_compat *ret);

/* Findings about it: one that must not be used here; none is found although the driver has one
 * (driver_library.c). */
void diag_judge_compat(struct diag *d, const struct model_process *p);
void diag_judge_not_on_path(struct diag *d, const struct model_process *p);

/* Before the rules: where the target's programs find the driver's libcuda outside of the usual
 * places, the model's host is one whose GPUs can be used (libcuda.c). */
void diag_see_own_libcuda(struct diag *d);

void diag_rule_engines(struct diag *d);      // engines.c
void diag_rule_architecture(struct diag *d); // architecture.c
void diag_rule_precedence(struct diag *d);   // precedence.c
void diag_rule_injected(struct diag *d);     // injected.c
void diag_rule_kernels(struct diag *d);      // kernels.c
void diag_rule_arm(struct diag *d);          // arm.c
void diag_rule_gfx(struct diag *d);          // gfx.c
void diag_rule_builds(struct diag *d);       // builds.c
void diag_rule_built_with(struct diag *d);   // builtwith.c
void diag_rule_companions(struct diag *d);   // companions.c
void diag_rule_compute(struct diag *d);      // compute.c
void diag_rule_requirements(struct diag *d); // requirements.c: after the failures
void diag_rule_overwritten(struct diag *d);  // overwritten.c

/* An error that only a part of a working application meets becomes a warning; then what the
 * findings mean for each entry (entries.c). Where the program is to compute on the CPU, what it
 * meets on a GPU alone becomes a note. Called when all rules have run. */
void diag_soften_parts(struct diag *d);
void diag_soften_gpu(struct diag *d);
void diag_judge_entries(struct diag *d);

/* A defect between two cuDNN libraries of different releases: true if it was one. */
bool diag_rule_cudnn_defect(struct diag *d, const struct diag_failure *x);

/* Whether cuDNN's libraries in the process come from different releases, in a way that fails. */
bool diag_cudnn_is_mixed(struct diag *d, const struct model_process *p);

/* ---- cudnn.c */

struct diag_cudnn_member {
    const struct ldso_object *object;
    const char *version; // NULL: cannot be determined
    struct str stem;
    bool sub;
};

typedef VEC(struct diag_cudnn_member) diag_cudnn_list;

diag_cudnn_list diag_cudnn_members(struct diag *d, const struct ldso_process *p);
/* Those of the next major version, in the order of the list; none: all were there. *at begins at 0.
 */
diag_cudnn_list diag_cudnn_next(struct diag *d, const diag_cudnn_list *all, size_t *at);
const char *diag_cudnn_version(const diag_cudnn_list *list);
const struct diag_cudnn_member *diag_cudnn_odd(const diag_cudnn_list *list, const char *common,
                                               bool sub);
bool diag_cudnn_twice(const diag_cudnn_list *list, const struct diag_cudnn_member **ret_first,
                      const struct diag_cudnn_member **ret_second);

/* ---- failures.c */

bool diag_is_loaded(struct ldso_process *p, const char *name);
bool diag_is_findable(struct diag *d, const struct ldso_request *r, const char *name);
bool diag_fails_likewise(struct diag *d, const struct model_process *p,
                         const struct diag_failure *x);

#endif
