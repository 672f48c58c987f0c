// A page that was sent: draws the document that stands in it.
import { start } from "./start.js";

const own = document.getElementById("look-data");
start(document.getElementById("look"), JSON.parse(own.textContent));
