// search_errors - finds the sentence of the catalogue that shares most words with what was pasted.
const words = (text) => new Set(text.toLowerCase().match(/[a-z_]{3,}/g) || []);
const known = SENTENCES.map(([text, page, title]) => ({ text, page, title, has: words(text) }));
const box = document.getElementById("error-search");
const list = document.getElementById("error-found");
box.addEventListener("input", () => {
  const asked = words(box.value);
  list.replaceChildren();
  if (!asked.size) return;
  const score = (k) => {
    let shared = 0;
    for (const word of k.has) shared += asked.has(word);
    return shared / Math.sqrt(k.has.size * asked.size);
  };
  const found = known.map((k) => [score(k), k]).sort((a, b) => b[0] - a[0]);
  for (const [s, k] of found.slice(0, 4)) {
    if (s < 0.2) break;
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = k.page;
    link.textContent = k.title;
    item.append(link, `: ${k.text}`);
    list.append(item);
  }
});
