const VERSION = "1";
let counter = 0;
const { a, b } = require("./x");
export const add = (x, y) => x + y;
export default class Cart extends Base {
  #items = [];
  static limit = 3;
  onClick = () => this.add();
  constructor(items) { super(); }
  get size() { return this.#items.length; }
  add(item) {
    const local = item;
    const helper = () => local;
    return helper();
  }
}
function* walk(tree) { yield tree; }
Cart.prototype.clear = function () {};
module.exports.open = (path) => path;
const api = { get(url) { return url; }, post: function (url) {}, version: 1 };
