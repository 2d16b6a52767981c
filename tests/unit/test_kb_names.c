/* Which releases have a name: sections and ranges of kb/names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "kb/names.h"

static int names_for(void **state)
{
    static struct arena a;
    static struct kb_names names = {.arena = &a};
    arena_init(&a, 0, NULL, NULL);
    *state = &names;
    return 0;
}

static int names_gone(void **state)
{
    struct kb_names *names = *state;
    arena_release(names->arena);
    return 0;
}

static size_t package(const char *name)
{
    for (size_t i = 0; i < kb_names_count(); i++) {
        if (strcmp(kb_names_package(i), name) == 0) {
            return i;
        }
    }
    fail_msg("no package %s", name);
    return 0;
}

/* Whether the release has it; it must be one that was read. */
static bool has(const struct kb_name *name, const char *release)
{
    for (size_t i = 0; i < name->n; i++) {
        if (strcmp(name->releases[i], release) == 0) {
            return name->has[i];
        }
    }
    fail_msg("%s %s was not read", name->package, release);
    return false;
}

static void a_module_belongs_to_a_package(void **state)
{
    (void)state;
    static const struct {
        const char *package, *module;
        bool is;
    } rows[] = {
        {"torchvision", "torchvision", true},
        {"torchvision", "torchvision.ops", true},
        {"torchvision", "torchvisionx", false},
        {"torchvision", "torch", false},
        {"huggingface-hub", "huggingface_hub.utils", true},
        {"pillow", "PIL.Image", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(kb_names_is_module_of(package(rows[i].package), str_of(rows[i].module)),
                         rows[i].is);
    }
}

static void names_come_and_go(void **state)
{
    static const struct {
        const char *package, *module, *name, *with, *without;
    } rows[] = {
        {"torchaudio", "torchaudio", "set_audio_backend", "2.8.0", "2.9.1"},
        {"diffusers", "diffusers.loaders", "IPAdapterMixin", "0.24.0", "0.23.1"},
        {"diffusers", "diffusers.loaders.single_file_utils", "create_vae_diffusers_config",
         "0.27.2", "0.28.2"},
        {"pydantic", "pydantic", "field_validator", "2.0.3", "1.10.27"},
        {"huggingface-hub", "huggingface_hub", "cached_download", "0.25.2", "0.26.5"},
        {"pillow", "PIL", "PILLOW_VERSION", "6.2.2", "7.0.0"},
        {"gradio", "gradio", "inputs", "3.50.2", "4.0.2"}, // a module
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kb_name name;
        size_t p = package(rows[i].package);
        char module[200];
        snprintf(module, sizeof module, "%s.%s", rows[i].module, rows[i].name);
        assert_true(kb_names_in_module(*state, p, rows[i].module, rows[i].name, &name) ||
                    kb_names_module(*state, p, module, &name));
        if (!has(&name, rows[i].with) || has(&name, rows[i].without)) {
            fail_msg("%s: %s", rows[i].package, rows[i].name);
        }
    }
}

static void arguments_and_members(void **state)
{
    struct kb_name name;
    assert_true(kb_names_inside(*state, package("huggingface-hub"), "hf_hub_download()",
                                "resume_download", &name));
    assert_true(has(&name, "0.36.2"));
    assert_false(has(&name, name.releases[name.n - 1]));
    assert_true(kb_names_inside(*state, package("diffusers"), "UNet2DConditionModel",
                                "enable_group_offload", &name)); // of ModelMixin
    assert_true(has(&name, "0.33.1"));
    assert_false(has(&name, "0.32.2"));
}

/* Near misses: nobody's name, a name of another module, what all releases have. */
static void what_did_not_change_is_not_found(void **state)
{
    struct kb_name name;
    assert_false(
        kb_names_in_module(*state, package("diffusers"), "diffusers.loaders", "own", &name));
    assert_false(kb_names_in_module(*state, package("diffusers"), "diffusers.loader",
                                    "IPAdapterMixin", &name));
    assert_false(kb_names_in_module(*state, package("pillow"), "PIL.Image", "open", &name));
    assert_false(kb_names_module(*state, package("torchaudio"), "torchaudio.transforms", &name));
    assert_false(kb_names_inside(*state, package("diffusers"), "", "own", &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_belongs_to_a_package),
        cmocka_unit_test(names_come_and_go),
        cmocka_unit_test(arguments_and_members),
        cmocka_unit_test(what_did_not_change_is_not_found),
    };
    return cmocka_run_group_tests_name("kb_names", tests, names_for, names_gone);
}
