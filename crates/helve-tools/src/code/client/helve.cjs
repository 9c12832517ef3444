// Calls other tools from inside the box: each goes through Helve's whole pipeline.
//
//     const helve = require("helve");   // or: import helve from "helve";
//     const page = await helve.call("http-get", { url: "https://example.com/" });
const net = require("net");
const PORT = 3129;

class ToolError extends Error {
  constructor(error) {
    super(`${error.code}: ${error.message}`);
    Object.assign(this, { name: "ToolError", suggestions: [] }, error);
  }
}

function call(tool, args = {}) {
  return new Promise((resolve, reject) => {
    let said = "";
    const connection = net.connect(PORT, "127.0.0.1", () => connection.write(JSON.stringify({ tool, arguments: args }) + "\n"));
    connection.setEncoding("utf8").on("data", (text) => { said += text; }).on("error", reject).on("end", () => {
      if (!said) return reject(new ToolError({ code: "internal", message: "no answer" }));
      const answer = JSON.parse(said);
      if (answer.ok) resolve(answer.result); else reject(new ToolError(answer.error));
    });
  });
}

module.exports = { call, ToolError };
