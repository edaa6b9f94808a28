// The compiler rounds where the source requires it: a double to float and back, and two adjacent
// conversions, as in oracles and kernels.
#include <criterion/criterion.h>

typedef struct two {
    double first, second;
} two;

__attribute__((noinline)) static void round_two(two *out, double first, double second) {
    out->first = (double)(float)first;
    out->second = (double)(float)second;
}

Test(rounding, neighbours_are_rounded) {
    two got;
    round_two(&got, 0.1, 0.2);
    cr_expect(got.first == 0x1.99999ap-4 && got.second == 0x1.99999ap-3, "%a %a", got.first,
              got.second);
}
