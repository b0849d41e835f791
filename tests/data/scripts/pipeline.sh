#!/bin/sh
#SUBMIT -J pipe -o pipe.out -t 5
set -e
seq 1 1000 | grep 7 | tee sevens.txt | wc -l
awk '{ s += $1 } END { print "sum", s }' sevens.txt
