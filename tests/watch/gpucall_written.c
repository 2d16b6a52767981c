/* The address of a GPU function in data that the program writes to as it runs: the page stays its
 * own. */
int hipSetDevice(int device);

int before = 1;
int (*table[])(int) = {hipSetDevice};
int after = 2;

int main(void)
{
    (void)table[0](7);
    after = before;
    before = 0;
    return before;
}
