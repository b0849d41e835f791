#!/bin/bash
#SBATCH --nodes=1 --ntasks=1
#SBATCH --mem-per-cpu=64m --time=10:00
#SBATCH -o two.out
sort < "$1" | uniq -c | sort -k1,1nr -k2 > counted.txt
head -n 1 counted.txt
