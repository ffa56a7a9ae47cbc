// search_order - pages of use first: those on how gpuops was made come behind all others.
var Scorer = {
  score: ([page, , , , score]) =>
    /^(speed-log|changes|benchmarks|certificate|design|contributing|release)\b/.test(page) ? score - 100 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
