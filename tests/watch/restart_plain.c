/* restart_plain [fine]: says that it is at work and aborts, or not. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    (void)argv;
    puts("at work");
    fflush(stdout);
    if (argc < 2) {
        abort();
    }
    return 0;
}
