// Composition root: the command line to one sub-command. Each sub-command builds its parts and
// shuts them down in reverse order.
#include <cstdio>

int main() {
  std::puts("yoke");
  return 0;
}
