#!/usr/bin/env python3
"""Packages the extension for VS Code.   package.py ACCEL_RUN OUTPUT.vsix

A .vsix is a zip archive with the extension below extension/, a manifest and a list of content types. The
JSON Schemas come from the executable. Equal inputs give equal bytes.
"""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

HERE = Path(__file__).resolve().parent
FILES = ("package.json", "extension.js", "language_client.js", "snippets/recipe.json", "README.md")
SCHEMAS = {"schemas/recipe.schema.json": [], "schemas/sweep.schema.json": ["--sweep"]}
TYPES = {"json": "application/json", "js": "application/javascript", "md": "text/markdown",
         "vsixmanifest": "text/xml"}
MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id={id} Version={version} Publisher={publisher}/>
    <DisplayName>{name}</DisplayName>
    <Description xml:space="preserve">{description}</Description>
    <Tags>{tags}</Tags>
    <Categories>{categories}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionDependencies" Value=""/>
      <Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
    </Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def manifest(package):
    return MANIFEST.format(
        id=quoteattr(package["name"]), version=quoteattr(package["version"]),
        publisher=quoteattr(package["publisher"]), engine=quoteattr(package["engines"]["vscode"]),
        name=escape(package["displayName"]), description=escape(package["description"]),
        tags=escape(",".join(package["keywords"])), categories=escape(",".join(package["categories"])))


def content_types():
    lines = "".join(f'<Default Extension=".{ending}" ContentType="{kind}"/>' for ending, kind in TYPES.items())
    return ('<?xml version="1.0" encoding="utf-8"?>\n'
            f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{lines}</Types>\n')


def contents(binary):
    """{name in the archive: bytes}."""
    found = {"[Content_Types].xml": content_types().encode(),
             "extension.vsixmanifest": manifest(json.loads((HERE / "package.json").read_text())).encode()}
    for name in FILES:
        found[f"extension/{name}"] = (HERE / name).read_bytes()
    for name, flags in SCHEMAS.items():
        done = subprocess.run([binary, "schema", *flags], capture_output=True, check=True)
        found[f"extension/{name}"] = done.stdout
    return found


def main(binary, output):
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = output.with_name(output.name + ".new")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents(binary).items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    fresh.replace(output)
    print(f"wrote {output}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
