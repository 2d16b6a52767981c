/*
 * Loads what an environment's packages would not find, before anything uses it, and then asks for a
 * library by its name as those packages do.
 *
 *     cc preload.c $(pkg-config --cflags --libs gpumend) -ldl -o preload
 *     ./preload /path/to/environment libcudnn_ops.so.9
 */
#include <dlfcn.h>
#include <gpumend.h>
#include <stdio.h>

static const char *const states[] = {"loaded", "was loaded already", "another copy is loaded",
                                     "not loaded"};

int main(int argc, char **argv)
{
    gm_context *gm = gm_new();
    struct gm_target target = {.size = sizeof target, .path = argc > 1 ? argv[1] : NULL};
    struct gm_preloaded done;
    if (!gm) {
        return 3;
    }
    if (gm_preload(gm, &target, &done) != GM_OK) {
        fprintf(stderr, "preload: %s\n", gm_error(gm));
        gm_free(gm);
        return 3;
    }
    for (size_t i = 0; i < done.n_libraries; i++) {
        const struct gm_library *l = &done.libraries[i];
        printf("%s: %s%s%s\n", l->path, states[l->state], l->says ? ": " : "",
               l->says ? l->says : "");
    }
    for (size_t i = 0; i < done.n_left_texts; i++) {
        printf("left: %s\n", done.left[i]);
    }
    gm_free(gm);
    if (argc > 2) {
        void *library = dlopen(argv[2], RTLD_NOW);
        printf("dlopen %s: %s\n", argv[2], library ? "found" : dlerror());
        return library ? 0 : 1;
    }
    return 0;
}
