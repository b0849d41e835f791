#!/bin/bash
#SUBMIT --job-name=build --cpus-per-task=2
#SUBMIT --time=5
#SUBMIT --output=build.out
mkdir -p project && cd project || exit 1
for n in a b c d; do printf 'int %s(void) { return %d; }\n' $n ${#n} > $n.c; done
printf 'int a(void), b(void), c(void), d(void);\nint main(void) { return a() + b() + c() + d() - 4; }\n' > main.c
printf 'prog: a.o b.o c.o d.o main.o\n\t$(CC) -o $@ $^\n' > Makefile
make -j "$SUBMIT_CPUS_PER_TASK" && ./prog && echo "built and run"
