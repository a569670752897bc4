// Starts `tile lsp` for the three languages. Colours come from the grammars alone and need no server.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const command = workspace.getConfiguration("tile").get("server", "tile");
  const server = { command, args: ["lsp"] };
  // Not for the other side of a comparison, say, which nobody edits.
  const documentSelector = ["file", "untitled"].flatMap((scheme) =>
    ["tile", "mfg", "lift"].map((language) => ({ scheme, language })));
  client = new LanguageClient("tile", "Tile JIT", server, { documentSelector });
  await client.start();
};

exports.deactivate = () => client?.stop();
