// search_order - guides first; pages on how gpuops was made come behind all others.
const GUIDES =
  /^(install|sums|same-bits|scaling-out|transpose|matmul|rdf|jacobi|arrays|choosing|measuring|first-kernel|mistakes|counting|to-a-gpu|course)$/;
const BEHIND = /^(speed-log|changes|benchmarks|certificate|design|contributing|release)\b/;
var Scorer = {
  score: ([page, , , , score]) => score + (BEHIND.test(page) ? -100 : GUIDES.test(page) ? 10 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
