from textwrap import dedent

import pytest

from rag.ingestion.markdown import parse_page
from rag.ingestion.mdx import from_mdx


@pytest.mark.parametrize(
    "module",
    [
        "import Tabs from '@theme/Tabs';",
        "import './styles.css'",
        "import {\n  Arm,\n  Gripper,\n} from '../components';",
        "export const speed = 3;",
        "export const Red = ({text}) => (\n  <div style={{top: 1}}>\n\n{text}\n  </div>\n);",
        "export default function Layout(props) {\n\n  return props;\n}",
        "export const broken = {",
    ],
)  # fmt: skip
def test_modules_are_no_text(module: str) -> None:
    assert from_mdx(f"{module}\n\nText.").strip() == "Text."


@pytest.mark.parametrize(
    "text",
    [
        "import the package, then build it.",
        "export the model as URDF.",
        "```js\nimport a from 'a'\nexport const b = 1;\n```",
        "An unlabelled <Red>word</Red>.",
        "See <Card>this</Card> or <Link label={2}>that</Link>.",
        "```jsx\n<TabItem label='x'>\n```",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert from_mdx(text) == text


def test_each_tab_keeps_its_name() -> None:
    source = """
        <Tabs groupId="system">
          <TabItem value="linux" label="Linux" default>

        Run it:

        :::tip
        As root.
        :::

        ```sh
        apt install arm
        ```

          </TabItem>
          <TabItem value="macOS">Nothing to do.</TabItem>
        </Tabs>

        After the tabs.
    """
    (section,) = parse_page(dedent(source), mdx=True)
    assert [block.text for block in section.blocks] == [
        "**Linux**\n\nRun it:\n\n**Tip**\n\nAs root.\n\n```sh\napt install arm\n```",
        "**macOS**\n\nNothing to do.",
        "After the tabs.",
    ]


@pytest.mark.parametrize(
    ("component", "expected"),
    [
        ('<Admonition type="tip" title="Mind the gap">Slowly.</Admonition>', "Mind the gap"),
        ('<Figure src="a.png" caption="An arm that grips" />', "An arm that grips"),
        ("<Card\n  icon={<Arm />}\n  title={'Grippers'}\n>\n\nThey grip.\n\n</Card>", "Grippers"),
    ],
)
def test_a_component_keeps_its_title(component: str, expected: str) -> None:
    (section,) = parse_page(component, mdx=True)
    assert section.blocks[0].text == f"**{expected}**"
