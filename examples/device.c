/*
 * Chooses a device at the start of a program.
 *
 *     cc device.c $(pkg-config --cflags --libs gpumend) -o device && ./device whisper:large-v3
 */
#include <gpumend.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    gm_context *gm = gm_new();
    struct gm_wish wish = {.size = sizeof wish, .model = argc > 1 ? argv[1] : NULL};
    struct gm_choice choice;
    if (!gm) {
        return 3;
    }
    if (gm_choose(gm, NULL, &wish, &choice) != GM_OK) {
        fprintf(stderr, "device: %s\n", gm_error(gm));
        gm_free(gm);
        return 3;
    }
    printf("%s\n", choice.reason);
    if (choice.device) {
        printf("device %s, index %d, compute type %s, %u threads\n", choice.device, choice.index,
               choice.compute_type, choice.threads);
    }
    gm_free(gm);
    return choice.device ? 0 : 1;
}
