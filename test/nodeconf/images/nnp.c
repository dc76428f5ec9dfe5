/* What upstream's image nonewprivs has: as whom a set-uid program runs. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
  printf("Effective uid: %d\n", (int)geteuid());
  return 0;
}
