// Words in scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese).
// To the encoder each character is a word there, and n-grams have names without spaces; the service marks whole words
// between spaces only. Here its unmarked pieces are cut further, so that the characters of such n-grams are marked too.

const SCRIPTS = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"];
const UNSPACED = new RegExp(`^[${SCRIPTS.map((name) => `\\p{Script=${name}}`).join("")}\\p{M}]+$`, "u");

/** Return pieces [{text, weight}] with the characters of unspaced words marked; together they are the same text. */
export function markUnspaced(pieces, words) {
  const known = words.filter(({ word }) => UNSPACED.test(word));
  return known.length === 0 ? pieces : pieces.flatMap((piece) => (piece.weight === null ? cutPiece(piece.text, known) : [piece]));
}

function cutPiece(text, known) {
  const weights = new Float64Array(text.length);
  const marked = new Uint8Array(text.length);
  for (const { word, weight } of known) {
    for (let place = text.indexOf(word); place >= 0; place = text.indexOf(word, place + 1)) {
      for (let inside = place; inside < place + word.length; inside += 1) {
        weights[inside] += weight / word.length;
        marked[inside] = 1;
      }
    }
  }
  const pieces = [];
  for (let begin = 0, end = 1; begin < text.length; begin = end, end += 1) {
    while (end < text.length && marked[end] === marked[begin] && weights[end] === weights[begin]) end += 1;
    pieces.push({ text: text.slice(begin, end), weight: marked[begin] ? weights[begin] : null });
  }
  return pieces;
}
